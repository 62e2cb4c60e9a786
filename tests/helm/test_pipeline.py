"""The chart's objects for Spark, and their command run as on a node."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from exporter.baseline import parse
from helm.made import ROOT
from tests.helm.chart import render
from tests.helm.dockerfile import PLACE, USER, values_of
from tests.helm.manifests import Manifest, of_kind, only
from tests.history.cycles import cycle, history

VOLUME: Final = "/var/lib/kafka-transaction-exporter"
ARGUMENTS: Final = ["pipeline", "run", f"--history={VOLUME}/history", f"--tables={VOLUME}/tables"]


def pod_of(cron_job: Manifest) -> Manifest:
    pod: Manifest = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return pod


def claims(pod: Manifest) -> dict[str, str]:
    """Claim by name of its volume."""
    return {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }


@pytest.mark.programs
def test_neither_is_there_by_default() -> None:
    assert not {manifest["kind"] for manifest in render("everything")} & {"CronJob", "ScheduledSparkApplication"}


@pytest.mark.programs
def test_the_cron_job_writes_to_the_exporter_s_volume() -> None:
    """The same claim at the same place, and not read-only: it reads the history there, and writes its tables next to it."""
    objects = render("spark")
    exporter = only(objects, "Deployment")["spec"]["template"]["spec"]
    pod = pod_of(only(objects, "CronJob"))
    (container,) = pod["containers"]

    assert claims(pod) == claims(exporter) == {"state": "transaction-history"}
    mounts = {mount["name"]: mount for one in (container, *exporter["containers"]) for mount in one["volumeMounts"]}
    assert mounts["state"] == {"name": "state", "mountPath": VOLUME}
    assert {"name": "state", "mountPath": VOLUME} in container["volumeMounts"]
    assert container["args"] == ARGUMENTS
    assert container["image"] == "kafka-transaction-exporter-pipeline:0.1.0"
    assert container["resources"]["limits"] == {"memory": "4Gi"}


@pytest.mark.programs
def test_the_cron_job_s_runs_do_not_meet() -> None:
    spec = only(render("spark", "--set=pipeline.timeZone=Europe/Berlin"), "CronJob")["spec"]

    assert (spec["schedule"], spec["timeZone"], spec["concurrencyPolicy"]) == ("5 3 * * *", "Europe/Berlin", "Forbid")
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 3600
    assert spec["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.programs
def test_the_cron_job_s_pod_is_where_the_volume_is() -> None:
    """A volume for one node is where the exporter is; one for all nodes binds no pod. Requested constraints are added."""
    here = only(render("spark"), "Deployment")["spec"]["selector"]["matchLabels"]
    wish = "pipeline.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].x=y"

    def affinity(*more: str) -> Any:
        return pod_of(only(render("spark", *more), "CronJob")).get("affinity")

    (beside,) = affinity()["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert beside == {"labelSelector": {"matchLabels": here}, "topologyKey": "kubernetes.io/hostname"}
    assert affinity("--set=persistence.accessModes={ReadWriteMany}") is None
    assert set(affinity(f"--set={wish}")) == {"podAffinity", "nodeAffinity"}


@pytest.mark.programs
def test_its_name_is_short_enough_for_a_cron_job() -> None:
    """Kubernetes adds eleven letters to it, and takes 63."""
    name = only(render("spark", f"--set=fullnameOverride={'x' * 60}"), "CronJob")["metadata"]["name"]

    assert len(name) <= 52
    assert name.endswith("-pipeline")


@pytest.mark.programs
def test_no_scrape_goes_to_the_pipeline() -> None:
    """Its pods have a component of their own, which no selector of the exporter matches."""
    objects = render("spark")
    labels = only(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]

    assert labels["app.kubernetes.io/component"] == "pipeline"
    for service in of_kind(objects, "Service"):
        assert not service["spec"]["selector"].items() <= labels.items()


@pytest.mark.programs
@pytest.mark.parametrize(
    ("more", "registry"),
    [((), ""), (("image.registry=a.example",), "a.example/"), (("global.imageRegistry=b.example",), "b.example/")],
)
def test_the_registry_of_the_exporter_is_that_of_the_pipeline(more: tuple[str, ...], registry: str) -> None:
    """Both images are pushed to one place; `pipeline.image.registry` names another one."""
    settings = [f"--set={each}" for each in (*more, "pipeline.sparkApplication.enabled=true")]
    objects = render("spark-operator", "--set=pipeline.image.registry=,image.registry=", *settings)
    spec = only(objects, "ScheduledSparkApplication")["spec"]["template"]

    assert spec["image"] == f"{registry}kafka-transaction-exporter-pipeline:0.1.0"


@pytest.mark.programs
def test_the_spark_application_does_the_same_on_several_nodes() -> None:
    """The same arguments, image and volume, for driver and executors, who may do no more than the exporter's pod."""
    objects = render(
        "spark-operator",
        "--set=imagePullSecrets[0]=plain,imagePullSecrets[1].name=mapped",
        "--set=extraEnv[0].name=TZ,extraEnv[0].value=UTC",
    )
    spec = only(objects, "ScheduledSparkApplication")["spec"]["template"]
    exporter = only(objects, "Deployment")["spec"]["template"]["spec"]

    assert spec["arguments"] == ARGUMENTS
    assert spec["image"] == "registry.example.org/kafka-transaction-exporter-pipeline:0.1.0"
    assert spec["imagePullSecrets"] == ["plain", "mapped"]
    assert claims(spec) == claims(exporter)
    for role in ("driver", "executor"):
        pod = spec[role]
        assert {mount["name"]: mount["mountPath"] for mount in pod["volumeMounts"]} == {
            "state": VOLUME,
            "spark-local-dir-1": "/tmp",
        }
        assert pod["podSecurityContext"] == exporter["securityContext"]
        assert pod["securityContext"] == exporter["containers"][0]["securityContext"]
        assert pod["labels"]["app.kubernetes.io/component"] == "pipeline"
        assert pod["env"] == [{"name": "TZ", "value": "UTC"}]
    assert (spec["driver"]["serviceAccount"], "serviceAccount" in spec["executor"]) == ("spark", False)
    assert (spec["executor"]["instances"], spec["driver"]["memory"]) == (2, "1g")


@pytest.mark.programs
def test_the_spark_application_runs_when_the_cron_job_would() -> None:
    """The values are the same; runs do not meet, and one that fails is tried a second time."""
    job = only(render("spark", "--set=pipeline.timeZone=Europe/Berlin"), "CronJob")["spec"]
    words = ("--set=pipeline.schedule=5 3 * * *", f"--set=fullnameOverride={'x' * 60}")
    application = only(render("spark-operator", *words), "ScheduledSparkApplication")
    spec = application["spec"]

    assert {name: spec[name] for name in ("schedule", "timeZone", "concurrencyPolicy")} == {
        name: job[name] for name in ("schedule", "timeZone", "concurrencyPolicy")
    }
    assert (spec["successfulRunHistoryLimit"], spec["failedRunHistoryLimit"]) == (
        job["successfulJobsHistoryLimit"],
        job["failedJobsHistoryLimit"],
    )
    assert spec["template"]["restartPolicy"]["type"] == "OnFailure"
    assert spec["template"]["restartPolicy"]["onFailureRetries"] == job["jobTemplate"]["spec"]["backoffLimit"]
    run = f"{application['metadata']['name']}-{time.time_ns()}"
    assert len(run) <= 63, "the operator makes a label of a run's name"


@pytest.mark.programs
def test_versions_and_places_are_those_of_the_image() -> None:
    """Spark as it is pinned, the file that the Dockerfile leaves, and the named user that the chart requires."""
    spec = only(render("spark-operator"), "ScheduledSparkApplication")["spec"]["template"]
    pinned = re.search(r"^pyspark==(\S+)", (ROOT / "constraints" / "spark.txt").read_text(), re.MULTILINE)

    assert pinned is not None
    assert spec["sparkVersion"] == pinned[1]
    assert spec["mainApplicationFile"] == f"local://{PLACE}/pipeline.py"
    assert any(
        f"cp {PLACE}/bin/kafka-transaction-exporter {PLACE}/pipeline.py" in command
        for command in values_of("RUN", "pipeline-build")
    )
    (step,) = values_of("RUN", "pipeline")
    assert f"useradd --uid {USER} --gid {USER}" in step


@pytest.mark.parametrize("name", ["runtime", "kerberos", "spark"])
def test_pins_of_one_package_agree(name: str) -> None:
    """Packages next to the exporter are tested in the same version."""

    def pins(file: str) -> set[str]:
        return set(re.findall(r"^(\S+==\S+)", (ROOT / "constraints" / f"{file}.txt").read_text(), re.MULTILINE))

    shared = {pin.partition("==")[0] for pin in pins(name)} & {pin.partition("==")[0] for pin in pins("dev")}
    assert shared
    assert {pin for pin in pins(name) if pin.partition("==")[0] in shared} <= pins("dev")


@pytest.mark.programs
def test_the_exporter_records_for_the_pipeline_and_reads_what_it_makes() -> None:
    """The same folders on the same volume, and room for them."""
    (container,) = only(render("spark"), "Deployment")["spec"]["template"]["spec"]["containers"]

    assert {argument for argument in container["args"] if "history" in argument or "baseline" in argument} == {
        f"--history.directory={VOLUME}/history",
        f"--baseline.file={VOLUME}/tables/v1/baselines.json",
    }


@pytest.mark.programs
@pytest.mark.parametrize(("flags", "size"), [((), "64Mi"), (("--set=history.enabled=true",), "4Gi")])
def test_a_history_gets_room(flags: tuple[str, ...], size: str) -> None:
    """Unless a size is chosen."""
    common = ("--set=persistence.enabled=true", "--set=kafka.bootstrapServers={a:1}")

    claim = only(render("minimal", *common, *flags), "PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == size
    chosen = only(render("minimal", *common, *flags, "--set=persistence.size=7Gi"), "PersistentVolumeClaim")
    assert chosen["spec"]["resources"]["requests"]["storage"] == "7Gi"


@pytest.mark.slow
def test_the_cron_job_s_command_does_its_work(tmp_path: Path) -> None:
    """With its own arguments, on a volume with an exporter's first file: the baselines are where the exporter looks."""
    # By the clock of the command, for which rows of the future do not count.
    an_hour_ago_ms = int(time.time() * 1000) - 3_600_000
    kept = history(tmp_path / "history", now_ms=an_hour_ago_ms)
    kept.record(cycle(an_hour_ago_ms), 30_000)
    kept.record(cycle(an_hour_ago_ms + 30_000, open_transactions=0), 30_000)
    kept.rotate()
    objects = render("spark")
    (container,) = pod_of(only(objects, "CronJob"))["containers"]
    arguments = [argument.replace(VOLUME, str(tmp_path)) for argument in container["args"]]

    done = subprocess.run(
        [sys.executable, "-m", "exporter", *arguments], capture_output=True, text=True, timeout=300, check=False
    )

    (exporter,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    (file,) = (argument.partition("=")[2] for argument in exporter["args"] if argument.startswith("--baseline.file="))
    assert done.returncode == 0, done.stderr
    assert parse(Path(file.replace(VOLUME, str(tmp_path))).read_text()).cluster_ids == {"cluster-1"}
