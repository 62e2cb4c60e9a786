"""Has Sphinx build the site from the repository's own Markdown, for `make docs`: navigation, front page, plain text."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

project = "kafka-transaction-exporter"
html_title = project
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/decisions/*.md",
    "alerts/runbooks/*.md",
    "examples/workload/README.md",
    "hangbench/*.md",
    "helm/kafka-transaction-exporter/README.md",
    "tests/README.md",
    "tests/verification/README.md",
    "tests/verification/*/README.md",
]
exclude_patterns = [".*", "build", "*.egg-info"]  # not even searched
myst_heading_anchors = 4  # the anchors that forges give to headings
smartquotes = False  # `--option` is not a dash
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_use_index = False

NAVIGATION: Final = {
    "Readers": ["docs/on-call", "docs/platform", "docs/application-owners"],
    "Guides": [
        "docs/install",
        "docs/helm",
        "docs/alerting",
        "docs/dashboards",
        "docs/transactions",
        "docs/pipeline",
        "docs/tables",
        "docs/queries",
        "docs/audit",
        "docs/capsules",
        "docs/fleet",
        "examples/workload/README",
        "hangbench/README",
        "hangbench/SCORES",
        "hangbench/PARTIES",
        "docs/security",
    ],
    "Reference": [
        "docs/commands",
        "docs/configuration",
        "docs/metrics",
        "docs/verdicts",
        "docs/platforms",
        "docs/glossary",
        "docs/causes",
        "Values of the chart <helm/kafka-transaction-exporter/README>",
    ],
    "Evidence": [
        "docs/proof",
        "docs/reliability",
        "docs/performance",
        "tests/verification/README",
        "tests/verification/*/README",
    ],
    "Project": [
        "CHANGELOG",
        "docs/release",
        "SECURITY",
        "ARCHITECTURE",
        "CONTRIBUTING",
        "tests/README",
        "CODE_OF_CONDUCT",
    ],
    "Runbooks": ["alerts/runbooks/README", "alerts/runbooks/Kafka*"],
    "Decisions": ["docs/decisions/*"],
}
"""Every page is below one of these: Sphinx warns of a page that is not, and a warning fails the build."""

SUMMARY_LENGTH: Final = 200


def setup(app: Sphinx) -> None:
    """Sphinx calls it."""
    app.connect("source-read", _add_navigation)
    app.connect("build-finished", _finish)


def _add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Only here: on a forge, the README would show a directive of Sphinx as text."""
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            source[0] += "\n```{toctree}\n:hidden:\n:glob:\n:caption: " + "\n".join([caption, "", *pages]) + "\n```\n"


def _finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is None:
        source, site = Path(app.srcdir), Path(app.outdir)
        shutil.copy(site / f"{root_doc}.html", site / "index.html")
        sections = {caption: _pages(source, patterns) for caption, patterns in NAVIGATION.items()}
        _write_plain_text(source, site, sections)


def _pages(source: Path, patterns: list[str]) -> list[str]:
    """Paths below the repository."""
    bare = [re.sub(r".* <(.+)>", r"\1", pattern) for pattern in patterns]  # without a title of its own
    return [str(path.relative_to(source)) for pattern in bare for path in sorted(source.glob(f"{pattern}.md"))]


def _write_plain_text(source: Path, site: Path, sections: dict[str, list[str]]) -> None:
    """For programs that read text, in the manner of llms.txt: a list of pages, all in one file, each next to its HTML."""
    front = f"{root_doc}.md"
    listed = [f"# {project}", f"> {_summary((source / front).read_text(encoding='utf-8'))}"]
    whole = []
    for caption, pages in {"": [front], **sections}.items():
        rows = []
        for page in pages:
            text = (source / page).read_text(encoding="utf-8")
            title = text.partition("\n")[0].removeprefix("# ")
            rows.append(f"- [{title}]({page}): {_summary(text)}".removesuffix(": "))
            whole.append(f"<!-- {page} -->\n\n{text}")
            (site / page).parent.mkdir(parents=True, exist_ok=True)
            (site / page).write_text(text, encoding="utf-8")
        listed += [f"## {caption}", "\n".join(rows)] if caption else []
    (site / "llms.txt").write_text("\n\n".join(listed) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join(whole), encoding="utf-8")


def _summary(text: str) -> str:
    """The first sentence below the title, without markup."""
    paragraphs = (
        paragraph for paragraph in text.split("\n\n")[1:] if not paragraph.startswith(("#", "|", "!", "<", "- ", "```"))
    )
    words = " ".join(re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", next(paragraphs, "")).split())
    sentence = re.match(r".+?\.(?= |$)", words)
    return textwrap.shorten(sentence[0] if sentence else words, SUMMARY_LENGTH, placeholder=" ...")
