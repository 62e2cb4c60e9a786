"""Writes each dashboard beside the code that makes it."""

from __future__ import annotations

from grafana.dashboards import DASHBOARDS, FOLDER, text_of


def main() -> None:
    """Write every dashboard anew."""
    for name, make in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(text_of(make()), encoding="utf-8")


if __name__ == "__main__":
    main()
