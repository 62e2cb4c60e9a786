"""Runs one target under the fuzzer, in its own process: the target must be loaded after the fuzzer."""

from __future__ import annotations

import sys
from typing import Final

import atheris

with atheris.instrument_imports(include=["exporter"]):
    from tests.verification.fuzz.targets import TARGETS

INPUT_BYTES_MAX: Final = 4096


def main(name: str, folder: str, seconds: str) -> None:
    """Ends by itself, with another status than 0 when the target failed; the input is then in `folder`."""
    words = [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", "-timeout=20", "-rss_limit_mb=1024"]
    take = TARGETS[name].take
    atheris.Setup([sys.argv[0], *words, f"-artifact_prefix={folder}/", f"{folder}/kept"], lambda data: void(take(data)))
    atheris.Fuzz()


def void(_: bool) -> None:  # noqa: FBT001
    """The fuzzer needs no result."""


if __name__ == "__main__":
    main(*sys.argv[1:])
