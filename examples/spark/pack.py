"""Packs this program and the packages that it needs into an archive for Spark workers, from the environment that runs it.

python examples/spark/pack.py packages.tar.gz

Workers need Python of the same version, and nothing else: `--archives packages.tar.gz#packages` unpacks it, and
`spark.executorEnv.PYTHONPATH=./packages` has it imported. Spark brings PySpark itself.
"""

import importlib.metadata
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

PROGRAM = "kafka-transaction-exporter"
BY_SPARK = {"pyspark", "py4j"}


def needed(name: str, seen: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """The installed package of that name, and what it requires without extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen | BY_SPARK:
        return
    seen.add(key)
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:  # a requirement of another platform
        return
    yield distribution
    for requirement in distribution.requires or ():
        if "extra ==" not in requirement:
            yield from needed(re.split(r"[^\w.-]", requirement, maxsplit=1)[0], seen)


def pack(archive: Path, *names: str) -> None:
    """Write the archive with these packages, and with `exporter` from where it is imported."""
    import exporter  # noqa: PLC0415 - as it runs here, also from a checkout

    seen: set[str] = set()
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(Path(exporter.__file__).parent, "exporter", filter=_without_caches)
        for distribution in [found for name in names for found in needed(name, seen)]:
            for file in distribution.files or ():
                if ".." not in file.parts and file.suffix != ".pth" and not str(file).startswith("exporter/"):
                    packed.add(str(distribution.locate_file(file)), str(file), filter=_without_caches)


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member


if __name__ == "__main__":
    pack(Path(sys.argv[1]), PROGRAM, *sys.argv[2:])
