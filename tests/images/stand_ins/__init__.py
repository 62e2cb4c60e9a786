"""Makes images of Kafka, Prometheus, Alertmanager and Grafana under the names that examples/ uses: none can be pulled."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Final

from hangbench.kafka.maven import kafka_jars
from tests.images.engine import BASE, alone, base_image, podman

HERE: Final = Path(__file__).parent


@functools.cache
def stand_in(name: str) -> str:
    """The image of this name, such as `apache/kafka:4.3.1`; its last word is the target."""
    target = name.partition(":")[0].rpartition("/")[2]
    with alone(), tempfile.TemporaryDirectory(prefix="stand-in-") as folder:
        base_image()
        for path in HERE.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        if target == "kafka":
            shutil.copytree(kafka_jars(name.partition(":")[2]), Path(folder, "libs"))
        tag = f"localhost/{name}"
        options = ("--layers", "--isolation=chroot", "--network=host", f"--build-arg=DEBIAN_IMAGE={BASE}")
        podman("build", "--quiet", *options, f"--target={target}", f"--tag={tag}", folder)
    return tag
