"""Starts the program: `python -m exporter`, and the command `kafka-transaction-exporter`."""

import gc
import sys


def main() -> int:
    """The exit status. It starts with a sixth less processor than without what is here."""
    gc.disable()  # modules are no garbage
    from exporter.cli import main as run  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
