"""Runs the pods that Spark makes on an API server, as a node would run them: with the entry point of the pipeline's image.

There are no containers, no network of pods and no names of services: all is on the loopback, and mounts are folders.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pyspark

from hangbench.kafka.process import end_with_parent
from helm.made import ROOT
from tests.helm.kubernetes import ApiServer
from tests.helm.manifests import Manifest

ENTRYPOINT: Final = ROOT / "examples" / "spark" / "entrypoint.sh"
ADDRESS: Final = "127.0.0.1"
IMAGE: Final = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(ROOT),
    "SPARK_HOME": str(Path(pyspark.__file__).parent),
    **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
}
"""The image's environment, with the places of this machine."""


class Node:
    """Starts each new pod of the namespace; `with` ends what still runs."""

    def __init__(self, server: ApiServer, namespace: str, folder: Path) -> None:
        self._server = server
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.roles: dict[str, str] = {}
        """Pod -> `driver` or `executor`."""

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def driver_status(self) -> int | None:
        """Starts the pods that wait; returns the exit status of the driver's, None while it runs."""
        for pod in self._server.call("GET", self._pods).body["items"]:
            name = pod["metadata"]["name"]
            if name not in self._processes:
                self._start(name, pod)
                self._report_running(name, pod)
        drivers = [self._processes[name] for name, role in self.roles.items() if role == "driver"]
        return drivers[0].poll() if drivers else None

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-6000:]}" for path in sorted(self._folder.glob("*.log")))

    def output(self, role: str) -> str:
        return "".join((self._folder / f"{name}.log").read_text() for name, of in self.roles.items() if of == role)

    def _start(self, name: str, pod: Manifest) -> None:
        (container,) = pod["spec"]["containers"]
        assert "command" not in container, "the image's own entry point is what starts"
        places = self._mounted(name, pod, container)

        def here(text: str) -> str:
            for place, folder in places.items():
                text = text.replace(place, str(folder))
            return text

        environment = {one["name"]: here(self._value(one, name)) for one in container.get("env", ())}
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [str(ENTRYPOINT), *map(here, container["args"])],
                cwd=self._folder,
                env={**IMAGE, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call, see end_with_parent
            )
        self.roles[name] = pod["metadata"]["labels"]["spark-role"]

    def _mounted(self, name: str, pod: Manifest, container: Manifest) -> dict[str, Path]:
        """Place in the container -> folder here, with the files of configuration maps."""
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        places = {}
        for mount in container["volumeMounts"]:
            folder = places[mount["mountPath"]] = self._folder / name / mount["name"]
            folder.mkdir(parents=True)
            named = volumes[mount["name"]].get("configMap", {}).get("name")
            data = {} if named is None else self._server.call("GET", f"{self._maps}/{named}").body.get("data", {})
            for file, text in data.items():
                # the name of a service, which nothing resolves here
                (folder / file).write_text(re.sub(r"(?m)^(spark\.driver\.host)=.*$", rf"\1={ADDRESS}", text))
        return places

    def _value(self, variable: Manifest, pod: str) -> str:
        if "valueFrom" not in variable:
            return str(variable.get("value", ""))
        field = variable["valueFrom"]["fieldRef"]["fieldPath"]
        return {"status.podIP": ADDRESS, "metadata.name": pod}[field]

    def _report_running(self, name: str, pod: Manifest) -> None:
        (container,) = pod["spec"]["containers"]
        running: dict[str, Any] = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": True,
            "state": {"running": {"startedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}},
        }
        pod["status"] = {
            "phase": "Running",
            "podIP": ADDRESS,
            "podIPs": [{"ip": ADDRESS}],
            "containerStatuses": [running],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        answer = self._server.call("PUT", f"{self._pods}/{name}/status", pod)
        assert answer.status in (200, 404, 409), answer.message  # gone or changed meanwhile
