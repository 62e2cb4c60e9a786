"""`python -m helm` writes what the chart takes from elsewhere: rules, dashboards, schema and README."""

from __future__ import annotations

import sys

from helm.made import CHART, DASHBOARDS, made_files


def main() -> int:
    """Files that are no longer made are removed, so that a renamed dashboard does not stay behind."""
    files = made_files()
    for path in sorted((CHART / DASHBOARDS).glob("*")):
        if str(path.relative_to(CHART)) not in files:
            path.unlink()
    for name, text in files.items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
