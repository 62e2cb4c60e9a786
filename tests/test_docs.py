"""The documents match the code: commands, flags, files, settings, reasons and names."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml
from kafka.protocol.api_key import ApiKey

from exporter.commands.arguments import COMMANDS, build_parser
from exporter.commands.status import ExitStatus
from exporter.config.loading import ConfigurationError, load
from exporter.evaluation.verdicts import InconclusiveReason, OutcomeEvidence, Verdict
from exporter.publication.metrics.table import METRICS
from exporter.snapshot import MarkerFinding
from tests.helm.chart import run_helm
from tests.symbols import missing

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "alerts").rglob("*.md")])
MARKDOWN = sorted(
    {*DOCUMENTS, *(path for name in ("tests", "hangbench", "helm", ".github") for path in (ROOT / name).rglob("*.md"))}
)
"""Also what is no page of the site."""
README = (ROOT / "README.md").read_text()
DOORS = ["docs/on-call.md", "docs/platform.md", "docs/application-owners.md"]
PROGRAM = "kafka-transaction-exporter"
WORDS_MAX = 28_700
"""Limit of all pages in `docs/` together: 70 % of the 41,000 words of an earlier version, in which users got lost."""
NEW_PAGES = {"audit.md": 2_000, "capsules.md": 700}
"""Pages about what that version did not have, with the limit of each."""


def fenced(language: str, text: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """Every line of the `sh` blocks, in words."""
    lines = [line for block in fenced("sh", text) for line in block.replace("\\\n", "").splitlines() if line]
    return [shlex.split(line, comments=True) for line in lines]


def parses(arguments: list[str]) -> bool:
    return build_parser().parse_args(arguments).command in COMMANDS


def test_the_readme_is_short_and_shows_the_exporter_first() -> None:
    """At most 120 lines; the pictures and what goes wrong are before the first command."""
    assert len(README.splitlines()) <= 120
    assert re.findall(r"!\[[^]]+\]\(docs/pictures/([a-z-]+)\.png\)", README.split("```sh")[0]) == [
        "status-page",
        "overview-hanging",
    ]


def test_the_pages_together_stay_short() -> None:
    """Of `docs/*.md`; decisions and results of tests are elsewhere, and not counted."""
    words = {page.name: len(page.read_text().split()) for page in (ROOT / "docs").glob("*.md")}
    new = {name: words.pop(name) for name in NEW_PAGES}
    longest = ", ".join(f"{name} {words[name]:,}" for name in sorted(words, key=words.__getitem__, reverse=True)[:5])

    assert sum(words.values()) <= WORDS_MAX, (
        f"docs/*.md have {sum(words.values()):,} words, at most {WORDS_MAX:,} are allowed. Say a thing on one page and "
        "link to it, leave out what a table beside it says, and move reasons to docs/decisions/ and results of tests to "
        f"tests/verification/. The longest pages: {longest}"
    )
    assert {name: count for name, count in new.items() if count > NEW_PAGES[name]} == {}


def test_the_readme_counts_the_situations_that_were_measured() -> None:
    """Kafka's version, their number, and how often each was right, from the score card of HangBench."""
    counted = re.search(
        r"In (\d+) situations on a real Kafka ([\d.]+) its verdict was right each time, .+ in (\d+) ", README
    )

    assert counted is not None
    _, _, card = (ROOT / "hangbench" / "SCORES.md").read_text().partition(f"## Apache Kafka {counted[2]}\n")
    assert f"\n| ktx | {counted[1]} | 0 | 0 | 0 | 0 | 0 |" in card
    assert f"\n| kafka-transactions | {counted[3]} |" in card


def test_the_readme_leads_every_reader_to_a_page() -> None:
    """Each page begins with what to look at, and then has commands."""
    doors = re.findall(r"\| \[(docs/[a-z-]+\.md)\]", README)

    assert doors == DOORS
    for door in doors:
        headings = re.findall(r"^## (.+)$", (ROOT / door).read_text(), re.MULTILINE)
        assert headings[:2] == ["What you look at first", "The commands"], door


@pytest.mark.parametrize("document", ["README.md", *DOORS])
def test_the_commands_of_the_first_pages_are_commands(document: str) -> None:
    """A target of make, the exporter with arguments that it accepts, or an installation of this folder."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    image = ""
    lines = commands((ROOT / document).read_text())

    assert len(lines) >= 3
    for line in lines:
        match line:
            case ["make", target]:
                assert target in targets
            case ["pip", "install", "."]:
                assert f'\nname = "{PROGRAM}"' in (ROOT / "pyproject.toml").read_text()
            case ["docker", "build", "--tag", image, "."]:
                assert f'ENTRYPOINT ["{PROGRAM}"]' in (ROOT / "Dockerfile").read_text()
            case ["docker", "run", "--rm", "--publish", "9814:9814", name, *arguments]:
                assert name == image
                assert parses(arguments)
            case ["helm", "install", _, chart, "--set", _, "--set", _]:
                assert (ROOT / chart / "Chart.yaml").is_file()
            case ["helm", "test", release, "--logs"]:
                assert f"helm install {release} " in README
            case [program, *arguments]:
                assert program in {PROGRAM, "ktx"}
                assert parses(arguments)


@pytest.mark.programs
def test_the_helm_command_of_the_readme_renders_the_chart() -> None:
    """With the brokers that it names, and nothing else set."""
    (line,) = [line for line in commands(README) if line[:2] == ["helm", "install"]]
    rendered = run_helm(3, "template", line[2], str(ROOT / line[3]), *line[4:])

    assert "kafka-bootstrap:9092" in rendered
    assert "kind: Deployment" in rendered


def test_flags_in_the_documents_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Each `--flag` that a document names is in the help of a command or of the program."""
    helps = ""
    for command in (["--help"], ["once", "--help-settings"], *([name, "--help"] for name in COMMANDS)):
        with pytest.raises(SystemExit):
            build_parser().parse_args(command)
        helps += capsys.readouterr().out
    ours = ["README.md", *DOORS, "SECURITY.md", "docs/configuration.md", "docs/verdicts.md", "docs/commands.md"]
    named = {flag for path in ours for flag in re.findall(r"`[^`\n]*?(--[a-z][a-z._-]*)", (ROOT / path).read_text())}

    assert len(named) > 10
    assert {flag for flag in named if not re.search(re.escape(flag) + r"\b", helps)} == set()


def test_every_command_and_every_option_of_its_own_is_documented() -> None:
    """`docs/commands.md` has a section for each command that names all its options, but for the shared settings."""
    text = (ROOT / "docs" / "commands.md").read_text()
    sections = {part.split("\n", 1)[0].strip("` "): part for part in text.split("\n## ")[1:]}
    parser = build_parser()
    (commands,) = [action for action in parser._actions if isinstance(action.choices, dict)]
    assert isinstance(commands.choices, dict)
    shared = {option for action in commands.choices["serve"]._actions for option in action.option_strings}

    for name, command in commands.choices.items():
        if name == "forceTerminateTransaction":
            continue
        assert name in sections, f"docs/commands.md has no section `{name}`"
        own = {option for action in command._actions for option in action.option_strings} - shared
        missing = {option for option in own if f"`{option}" not in sections[name]}
        assert missing == set(), name


def test_every_exit_status_is_documented() -> None:
    """The table of statuses in `docs/commands.md` is ExitStatus, no more and no less."""
    text = (ROOT / "docs" / "commands.md").read_text()

    assert {int(number) for number in re.findall(r"^\| (\d) \|", text, re.MULTILINE)} == {
        int(each) for each in ExitStatus
    }


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link has a file behind it, and so has every path in backticks that looks like one of the project's."""
    broken = []
    for document in DOCUMENTS:
        text = document.read_text()
        links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
        broken += [f"{document.name}: {link}" for link in links if not (document.parent / link).exists()]
        paths = re.findall(r"`((?:exporter|tests|docs|examples|benchmarks)/[\w./-]+)`", text)
        broken += [f"{document.name}: {path}" for path in paths if not (ROOT / path).exists()]

    assert broken == []


def test_links_into_a_page_lead_to_a_heading() -> None:
    """By the anchors that a forge and the site give to headings."""
    broken = []
    for document in DOCUMENTS:
        for path, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text()):
            target = document.parent / path if path else document
            if target.suffix == ".md" and anchor not in anchors(target.read_text()):
                broken.append(f"{document.name}: {path}#{anchor}")

    assert broken == []


def anchors(text: str) -> set[str]:
    """Of every heading outside of code: small letters, hyphens for spaces, no other punctuation."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_site_s_menu_has_every_page_once() -> None:
    """`docs/site/conf.py` lists or matches each Markdown file, but for the front page and the forge's own."""
    tree = ast.parse((ROOT / "docs" / "site" / "conf.py").read_text())
    (menu,) = [
        ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.AnnAssign) and _is_menu(statement) and statement.value
    ]
    listed = [re.sub(r".* <(.+)>", r"\1", entry) for entries in menu.values() for entry in entries]
    found = [str(path.relative_to(ROOT)) for entry in listed for path in ROOT.glob(f"{entry}.md")]
    pages = [*DOCUMENTS, *(ROOT / "hangbench").glob("*.md")]
    there = [str(path.relative_to(ROOT)) for path in pages if path.name != "README.md"]

    assert sorted(path for path in found if not path.endswith("README.md")) == sorted(there)


def _is_menu(assignment: ast.AnnAssign) -> bool:
    return isinstance(assignment.target, ast.Name) and assignment.target.id == "NAVIGATION"


def test_code_that_documents_name_exists() -> None:
    """Every Python file, `Class.member`, module, and every name beside a file: a promise whose test is gone is not kept."""
    assert [sentence for document in MARKDOWN for sentence in missing(document)] == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("`Daemon.cycle` is all of it.", "there is no Daemon.cycle"),
        ("`Daemon.run` in `exporter/daemon/publisher.py`.", "exporter/daemon/publisher.py has no Daemon.run"),
        ("By `serving` or `gone` (`tests/real_brokers/exporting.py`).", "tests/real_brokers/exporting.py has no gone"),
        ("`daemon/scheduler.py` (`LIVENESS`)", "daemon/scheduler.py has no LIVENESS"),
        ("`tests/test_docs.py::test_gone`", "tests/test_docs.py has no test_gone"),
        ("The heaps are in `heap.py`.", "there is no file heap.py"),
        ("Run `python -m tests.verification.gone`.", "there is no module tests.verification.gone"),
        ("See `exporter.cycle.Gone`.", "there is no module exporter.cycle.Gone"),
        ("`Nobody.reads` this.", "there is no Nobody.reads"),
    ],
)
def test_code_that_does_not_exist_is_noticed(tmp_path: Path, text: str, sentence: str) -> None:
    """In each form in which a document names it."""
    document = tmp_path / "page.md"
    document.write_text(text)

    assert list(dict.fromkeys(missing(document))) == [f"page.md: {sentence}"]


def test_code_that_exists_is_not_reported(tmp_path: Path) -> None:
    """Inherited members, fields, constants, modules, imported packages, and what is Kafka's or a file."""
    document = tmp_path / "page.md"
    document.write_text(
        "`WatchedCluster.cycle` and `DaemonServices` in `exporter/daemon/watched_cluster.py`, `EmbeddedReader.close`, "
        "`Utils.abs`, "
        "`LIVENESS_CYCLES` (`daemon/scheduler.py`), `DaemonServices.publish`, `exporter.cycle.Reader`, `Chart.yaml`, "
        "`python -m tests.verification.model`, `tests/test_docs.py::test_code_that_exists_is_not_reported`."
    )

    assert list(missing(document)) == []


def test_the_requests_in_the_security_document_are_those_of_the_code() -> None:
    """Every API that `exporter/kafka/` names is in the list, and no other."""
    text = (ROOT / "docs" / "security.md").read_text()
    section = text.split("## Requests to the cluster")[1].split("\n## ")[0]
    documented = set(re.findall(r"\b(?:Api|Describe|List|Offset|Metadata)[A-Za-z]*", section))
    code = "".join(path.read_text() for path in (ROOT / "exporter" / "kafka").rglob("*.py"))
    named = set(re.findall(r'"((?:Describe|List|Offset|Metadata)[A-Za-z]*)"', code)) & {api.name for api in ApiKey}

    assert {"DescribeProducers", "DescribeQuorum"} < named
    assert documented - {"ApiVersions"} == named
    # What the project says of its security first has no list of its own, which would go out of date.
    assert [api.name for api in ApiKey if re.search(rf"\b{api.name}\b", (ROOT / "SECURITY.md").read_text())] == []


def test_every_verdict_and_every_reason_is_explained() -> None:
    """`docs/verdicts.md` has a row for each, and for nothing else."""
    text = (ROOT / "docs" / "verdicts.md").read_text()
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE)) - {"outcome_evidence", "markers"}
    outcomes = {outcome.value for outcome in OutcomeEvidence} | {state.value for state in MarkerFinding}

    named = {verdict.label for verdict in Verdict} | {reason.value for reason in InconclusiveReason} | outcomes
    assert rows == named, f"add rows for {named - rows}, remove those of {rows - named}"


def test_every_reason_has_its_remedy() -> None:
    """In the runbook of the alert that on-call gets for it."""
    text = (ROOT / "alerts" / "runbooks" / "KafkaTransactionInconclusive.md").read_text()
    remedies = [line.partition("|")[2].partition("|")[0] for line in text.splitlines() if line.startswith("| `")]
    named = [reason for cell in remedies for reason in re.findall(r"`([a-z_]+)`", cell)]

    assert sorted(named) == sorted(["inconclusive_reason", *(reason.value for reason in InconclusiveReason)])


def test_metrics_in_the_documents_exist() -> None:
    names = {metric.name for metric in METRICS}
    words = {
        word
        for path in ["README.md", *DOORS, "docs/verdicts.md", "CHANGELOG.md"]
        for word in re.findall(r"\bkafka_[a-z_]+\b", (ROOT / path).read_text())
    }

    assert words
    assert words - {"kafka_transactions", "kafka_transaction_markers"} <= names  # Spark's sources


def test_the_example_of_a_problem_is_real() -> None:
    """The claim that a setting which would be ignored is refused holds for every security name."""
    with pytest.raises(ConfigurationError, match="would be ignored"):
        load(
            file=None,
            environment={},
            flags={"kafka.bootstrap.servers": "a:1", "kafka.ssl.ca.location": "/ca.pem"},
        )


def test_the_alert_in_the_documents_is_the_one_that_prometheus_makes() -> None:
    """Word by word what `promtool` expects of KafkaTransactionHanging in tests/alerts."""
    page = yaml.safe_load((ROOT / "tests/alerts/timelines/KafkaTransactionHanging.yaml").read_text())["pages"][
        "critical"
    ]
    lines = [line.strip() for line in (ROOT / "docs" / "on-call.md").read_text().splitlines()]
    quoted = [line.removeprefix("> ").strip("`*") for line in lines if line.startswith("> ")]

    assert quoted == [page[name].strip() for name in ("summary", "description", "blocked_groups", "variables")]


def test_the_glossary_has_each_term_once_and_terms_that_a_reader_meets() -> None:
    """In order, and each is used on another page."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| (.+?)(?: \(K\))? \| (.+) \|$", page, re.MULTILINE)[1:]
    terms = [term for term, _ in rows]
    others = "\n".join(page.read_text().lower() for page in (ROOT / "docs").glob("*.md") if page.name != "glossary.md")

    assert len(terms) > 20
    assert terms == sorted(set(terms), key=str.lower)
    assert [term for term in terms if term.lower() not in others] == []
