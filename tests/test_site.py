"""The site of `make docs`: every page, nothing from other hosts, and no dead link that passes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[1]
LOADING: Final = frozenset({"audio", "embed", "iframe", "img", "input", "object", "script", "source", "track", "video"})
LINKS_THAT_LOAD: Final = frozenset(
    {"stylesheet", "preload", "prefetch", "modulepreload", "icon", "dns-prefetch", "preconnect"}
)
ELSEWHERE: Final = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
NAMESPACE: Final = "//www.w3.org"
"""Of SVG: a name that looks like an address."""
WRONG: Final = {
    "[a page](nowhere.md)": "'nowhere.md'",
    "[a heading](docs/helm.md#nothing)": "'nothing'",
    "[a heading of this page](#nowhere)": "'nowhere'",
    "[a file](examples/none.yaml)": "'examples/none.yaml'",
    "![a picture](docs/pictures/none.png)": "docs/pictures/none.png",
}
"""Written text -> the name in the failed build's warning."""


def build(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command of the Makefile, on this source, into this folder."""
    recipe = re.search(
        r"\$\(BIN\)/python (-m sphinx (?:[^\n]|\\\n)*) \\\n\t  \. build/site\n", (ROOT / "Makefile").read_text()
    )
    assert recipe
    words = shlex.split(recipe[1].replace("build/site-pages", str(folder / "pages")))
    return subprocess.run(
        [sys.executable, *words, str(source), str(folder / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="`make docs` brings Sphinx")
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT, folder)
    assert (built.returncode, built.stderr) == (0, "")
    return folder / "site"


@pytest.fixture(scope="module")
def pages() -> list[str]:
    """Every Markdown file of the repository but the forge's own."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    return [page for page in listed if not page.startswith(".github/")]


def test_every_page_is_on_the_site_and_can_be_searched(site: Path, pages: list[str]) -> None:
    """As HTML, in the index of the search, and as plain text; the README is the front page."""
    assert len(pages) > 70
    indexed = (site / "searchindex.js").read_text()
    for page in pages:
        name = page.removesuffix(".md")
        assert (site / f"{name}.html").is_file()
        assert f'"{name}"' in indexed
        assert (site / page).read_text() == (ROOT / page).read_text()
    assert (site / "index.html").read_text() == (site / "README.html").read_text()


def test_the_plain_text_has_every_page(site: Path, pages: list[str]) -> None:
    """`llms.txt` links each with its first sentence, `llms-full.txt` has the text of each."""
    rows = re.findall(r"^- \[(.+)\]\((.+)\)(?:: (.+))?$", (site / "llms.txt").read_text(), re.MULTILINE)
    whole = (site / "llms-full.txt").read_text()

    assert {path for _, path, _ in rows} == set(pages) - {"README.md"}
    assert all((ROOT / path).read_text() in whole for path in pages)
    assert [path for _, path, summary in rows if not summary] == []


class Loads(HTMLParser):
    """Files that a browser loads for a page by itself, without links to click."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in LOADING or (tag == "link" and LINKS_THAT_LOAD & set(given.get("rel", "").split())):
            self.loads += [given[name] for name in ("src", "href", "data", "srcset", "poster") if name in given]
        self.loads += re.findall(r"url\(['\"]?([^'\")]+)", given.get("style", ""))


def loaded(text: str) -> list[str]:
    parser = Loads()
    parser.feed(text)
    return parser.loads


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    """No script, style, font or picture: neither by a page, nor by a style, nor by a script."""
    foreign = []
    for page in site.rglob("*.html"):
        found = loaded(page.read_text())
        assert len(found) > 3, page
        foreign += [f"{page.name}: {link}" for link in found if ELSEWHERE.match(link)]
    for style in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")\s]+)", style.read_text())
        foreign += [f"{style.name}: {link}" for link in found if ELSEWHERE.match(link)]
    for script in site.rglob("*.js"):
        if script.name != "searchindex.js":
            found = re.findall(r"['\"`]((?:https?:)?//[a-z0-9.-]+\.[a-z]+)", script.read_text())
            foreign += [f"{script.name}: {link}" for link in found if NAMESPACE not in link]

    assert foreign == []
    assert loaded(
        '<link rel="stylesheet" href="https://fonts.example.org/a.css"><script src="//cdn.example.org/a.js">'
    ) == [
        "https://fonts.example.org/a.css",
        "//cdn.example.org/a.js",
    ]


def test_a_dead_link_fails_the_build(pages: list[str], tmp_path: Path) -> None:
    """To a page, a heading, a file or a picture; and so does a page that no menu has."""
    pytest.importorskip("sphinx", reason="`make docs` brings Sphinx")
    source = tmp_path / "source"
    others = [
        *(ROOT / "docs").glob("*/*.*"),
        *(ROOT / "examples").rglob("*.yaml"),
        *(ROOT / "examples").rglob("*.service"),
        *(path for folder in ("exporter", "hangbench", "tests") for path in (ROOT / folder).rglob("*.py")),
    ]
    for page in [*pages, *(str(path.relative_to(ROOT)) for path in others)]:
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, source / page)
    with (source / "SECURITY.md").open("a") as written:
        written.write("\n" + "\n".join(WRONG) + "\n")
    (source / "docs" / "unlisted.md").write_text("# Unlisted\n")
    built = build(source, tmp_path)

    assert built.returncode == 1
    warnings = [line for line in built.stderr.splitlines() if "WARNING" in line]
    for named in (*WRONG.values(), "docs/unlisted.md"):
        assert any(named in warning for warning in warnings), built.stderr
    assert len(warnings) == len(WRONG) + 1
