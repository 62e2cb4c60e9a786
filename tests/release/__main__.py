"""`make release VERSION=1.2.3`: every file of a release but the images, in build/release/1.2.3."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.release import artifacts, source

ROOT: Final = Path(__file__).parents[2]


def release(root: Path, version: str, folder: Path) -> None:
    """Makes the files in `folder`, which is replaced. Raises ReleaseError, and leaves no folder then."""
    source.require_releasable(root, version)
    time_s = source.committed_at(root)
    with tempfile.TemporaryDirectory(prefix="release-") as temporary:
        tree, made = Path(temporary, "tree"), Path(temporary, "made")
        made.mkdir()
        source.export(root, tree)
        source.link_readme(tree, version)
        (made / "NOTES.md").write_text(source.notes((tree / "CHANGELOG.md").read_text(encoding="utf-8"), version))
        wheel = artifacts.make_packages(tree, made, time_s=time_s)
        artifacts.require_runs(wheel, tree, Path(temporary, "empty"), version)
        artifacts.make_chart(tree, made, time_s=time_s)
        artifacts.make_sboms(tree, made)
        artifacts.write_sums(made)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="as in pyproject.toml, Chart.yaml and CHANGELOG.md")
    version = parser.parse_args().version
    folder = ROOT / "build" / "release" / version
    try:
        release(ROOT, version, folder)
    except source.ReleaseError as error:
        sys.stderr.write(f"nothing is released:\n{error}\n")
        return 1
    sys.stdout.write((folder / "SHA256SUMS").read_text(encoding="utf-8"))
    sys.stdout.write(f"in {folder.relative_to(ROOT)}; the images: make images\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
