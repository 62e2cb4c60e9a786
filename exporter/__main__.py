"""Starts the program: `python -m exporter`, and the command `kafka-transaction-exporter`."""

import gc
import sys


def main() -> int:
    """The exit status. Modules are no garbage: looking through them for it is an eighth of the time that a start takes."""
    gc.disable()
    from exporter.cli import main as run  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
