"""Makes tests/README.md: from a room to its tests, and from a rule or an invariant to what would notice its loss.

Everything comes from imports, marks, fixtures and names; `make generate` writes it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from tests import rooms
from tests.evaluation.test_rules import BY_OFFSETS, PREDICATES, ROWS, by_offsets
from tests.verification.model.defects import DEFECTS, Defect
from tests.verification.model.lies import LIES, Lie
from tests.verification.model.steps import NEEDED

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ROOT / "tests"
MODEL: Final = TESTS / "verification" / "model"
ELSEWHERE_MAX: Final = 12
"""Files of other folders that are named for a room; the others are counted."""
KINDS: Final[Mapping[str, str]] = {
    "engine": "images by podman",
    "api_server": "on a real API server of Kubernetes",
    "broker": "on real brokers",
    "spark": "on Spark",
    "browser": "in a browser",
    "programs": "with another program: promtool, Helm, jsonnet, git",
    "tests.verification.model": "by the model",
    "tests.kafka.fake_broker": "against the fake broker",
    "tests.alerts.timeline": "time lines of alerts",
    "tests.commands.golden": "output word by word",
    "tests.publication.scenarios": "output word by word",
    "hypothesis": "properties of generated data",
    "": "examples and tables",
}
"""A mark, an imported module, or nothing else -> the kind of test. Of several kinds in a file the first one counts."""

THROUGH_HELPERS: Final = {"tests.verification.model", "tests.kafka.fake_broker"}
"""These modules make a kind also where a helper imports them."""

HEAD: Final = """\
# Tests

Made by `make generate` from imports, marks and names: change [index.py](index.py), not this page.
[CONTRIBUTING.md](../CONTRIBUTING.md) says how to run them, [verification/README.md](verification/README.md) which longer
programs there are.

- To find the tests of a **room**, take its row below: first the files of its own folder, then others that import it.
- To find the tests of a **verdict**, a **guard of recovery** or an **invariant of the model**, take the tables at the end.
- A helper is a file without `test_`: `builders.py` makes data, `fake_broker.py` is a broker, `conftest.py` has fixtures.
"""


RULES: Final = "evaluation/rules.py"
GUARDED: Final = ("plan.py", "carry_out.py", "partition.py", "termination.py", "plan_file.py")
VERDICTS: Final = """\
## From a rule of verdicts to its tests

Predicates of [rules.py](../exporter/evaluation/rules.py). Each row of [test_rules](evaluation/test_rules.py) runs all.

| predicate | verdict | true in so many rows | the model takes away | other files that name the verdict |
|---|---|---|---|---|"""
GUARDS: Final = """\
## From a guard of recovery to its tests

What is checked before a marker: functions of `exporter/recovery/`, and defects of the model without them.

| function | tests that call it | the model takes away |
|---|---|---|"""
INVARIANTS: Final = """\
## From an invariant of the model to what checks it

[The model's README](verification/model/README.md#what-is-checked) says what each invariant demands; every schedule checks
all of them. A lie is a wrong result of an old version; a defect or a missing step is put into today's code. They are
searched for by `test_no_schedule_that_found_a_lie_in_the_old_code_finds_one_now` and
`test_an_obligation_that_is_taken_away_is_missed` (`verification/model/test_model.py`), and by
`test_a_step_that_is_taken_away_is_missed` (`verification/model/test_steps.py`).

| invariant | checked by | known lies | defects and missing steps that are found |
|---|---|---|---|"""


@dataclass(frozen=True)
class File:
    """One file of tests."""

    name: str
    """Below tests/."""
    tree: ast.Module
    imports: frozenset[str]
    """Modules, and names in them, that the file itself imports."""
    reached: frozenset[str]
    """And those that it imports through helpers of tests/."""
    marks: frozenset[str]

    @cached_property
    def kind(self) -> str:
        own = self.marks | self.imports | {module for module in self.reached if module in THROUGH_HELPERS}
        return next(kind for key, kind in KINDS.items() if not key or key in own)

    @property
    def link(self) -> str:
        return f"[{self.name.removesuffix('.py')}]({self.name})"

    @cached_property
    def tests(self) -> dict[str, set[str]]:
        """Test -> the names that it uses, `module.name` where it takes them from a module."""
        return {node.name: set(_names_in(node)) for node in _functions(self.tree) if node.name.startswith("test_")}

    @cached_property
    def names(self) -> set[str]:
        """All names that the file uses."""
        return set(_names_in(self.tree))

    @cached_property
    def words(self) -> set[str]:
        """Members and texts that occur in it."""
        return {
            str(node.attr if isinstance(node, ast.Attribute) else node.value)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute | ast.Constant)
        }

    def using(self, module: str, name: str) -> list[str] | None:
        """The tests that use a function of a module of the exporter; None if the file does not use it at all."""
        used = {name} if f"{module}.{name}" in self.imports else set()
        if module in self.imports:
            used.add(f"{module.rpartition('.')[2]}.{name}")
        if not used & self.names:
            return None
        return [f"`{test}`" for test, names in self.tests.items() if names & used]


class Index:
    """All files of tests, by what they use."""

    @cached_property
    def _trees(self) -> dict[str, ast.Module]:
        """By dotted name."""
        return {
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
                path.read_text(encoding="utf-8")
            )
            for path in sorted(TESTS.rglob("*.py"))
        }

    @cached_property
    def _modules(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(_modules(tree)) for name, tree in self._trees.items()}

    @cached_property
    def files(self) -> list[File]:
        return [
            File(
                name=name.removeprefix("tests.").replace(".", "/") + ".py",
                tree=tree,
                imports=self._modules[name],
                reached=frozenset(self._reached(name)),
                marks=frozenset(self._marks(name)),
            )
            for name, tree in self._trees.items()
            if name.rpartition(".")[2].startswith("test_")
        ]

    @cached_property
    def _fixtures(self) -> dict[str, dict[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """Module -> its fixtures by name."""
        return {
            name: {
                node.name: node
                for node in _functions(tree)
                if any("fixture" in ast.unparse(each) for each in node.decorator_list)
            }
            for name, tree in self._trees.items()
        }

    def _fixture(self, module: str, name: str) -> tuple[str, ast.FunctionDef | ast.AsyncFunctionDef] | None:
        """Where pytest finds it: in the module, imported into it, or in a conftest of its folder or of one above."""
        parents = module.split(".")[:-1]
        imported = [each.rpartition(".")[0] for each in self._modules[module] if each.endswith(f".{name}")]
        above = [".".join((*parents[:depth], "conftest")) for depth in range(len(parents), 0, -1)]
        for place in (module, *imported, *above):
            if name in self._fixtures.get(place, {}):
                return place, self._fixtures[place][name]
        return None

    def _marks(self, module: str) -> set[str]:
        """Of all tests of a file: their own, and those of the programs that their fixtures start."""
        marks = set()
        for node in ast.walk(self._trees[module]):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "mark":
                marks.add(node.attr)
        for node in _functions(self._trees[module]):
            if node.name.startswith("test_"):
                texts = {
                    each.value
                    for mark in node.decorator_list
                    for each in ast.walk(mark)
                    if isinstance(each, ast.Constant)
                }
                wanted = {
                    each.arg for each in node.args.args if not any(each.arg in str(text).split(",") for text in texts)
                }
                marks |= self._started(module, wanted)
        return marks

    def _started(self, module: str, fixtures: set[str]) -> set[str]:
        marks = set()
        for name in fixtures:
            found = self._fixture(module, name)
            if found is None:
                continue
            place, function = found
            for call in (each for each in function.decorator_list if isinstance(each, ast.Call)):
                if ast.unparse(call.func) == "starts":
                    marks |= {str(ast.literal_eval(argument)) for argument in call.args}
            marks |= self._started(place, {each.arg for each in function.args.args} - {name})
        return marks

    def _reached(self, name: str) -> set[str]:
        reached, waiting = set[str](), [name]
        while waiting:
            for module in self._modules[waiting.pop()] - reached:
                reached.add(module)
                if module in self._trees and "test_" not in module:
                    waiting.append(module)
        return reached

    def using(self, path: str, name: str) -> list[str]:
        """Links to the tests that use a function of a file of the exporter."""
        uses = ((file.link, file.using(_module(path), name)) for file in self.files)
        return [f"{link}: {', '.join(tests)}" if tests else link for link, tests in uses if tests is not None]


INDEX: Final = Index()


def text() -> str:
    """The page."""
    return "\n".join([HEAD, *_kinds(), *_rooms(), *_verdicts(), *_guards(), *_invariants()])


def _kinds() -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    for file in INDEX.files:
        counts[file.kind] += 1
    yield "## Kinds\n\n| kind | files |\n|---|---|"
    yield from (f"| {kind} | {counts[kind]} |" for kind in dict.fromkeys(KINDS.values()))
    yield ""


def _rooms() -> Iterator[str]:
    yield "## From a room to its tests\n\n| room | kind | files |\n|---|---|---|"
    for room in rooms.rooms():
        name = room.name.removesuffix(".py")
        own, others = tests_of(name)
        by_kind: dict[str, list[str]] = defaultdict(list)
        for file in own:
            by_kind[file.kind].append(file.link)
        for kind in dict.fromkeys(KINDS.values()):
            if kind in by_kind:
                yield f"| `{room.name}` | {kind} | {', '.join(by_kind[kind])} |"
        if others:
            yield f"| `{room.name}` | elsewhere | {_shortened([file.link for file in others])} |"
    yield "\n## Other folders\n\n| folder | kind | files |\n|---|---|---|"
    names = [room.name.removesuffix(".py") for room in rooms.rooms()]
    left = [file for file in INDEX.files if not any(_is_of(file, name.replace(".", "/")) for name in names)]
    by_folder: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in left:
        by_folder[file.name.rpartition("/")[0], file.kind].append(file.link)
    for (folder, kind), links in sorted(by_folder.items()):
        yield f"| `tests/{folder}` | {kind} | {', '.join(links)} |"
    yield ""


def tests_of(room: str) -> tuple[list[File], list[File]]:
    """Files of the room's own folder or name; and others that import it, those first that import it most."""
    folder = room.replace(".", "/")
    own = [file for file in INDEX.files if _is_of(file, folder)]
    uses = {
        file.name: sum(f"{module}.".startswith(f"exporter.{room}.") for module in file.imports)
        for file in INDEX.files
        if not _is_of(file, folder)
    }
    others = [file for file in INDEX.files if uses.get(file.name)]
    return own, sorted(others, key=lambda file: -uses[file.name])


def _is_of(file: File, folder: str) -> bool:
    parent, _, name = file.name.rpartition("/")
    return parent == folder or (not parent and name == f"test_{folder}.py")


def _verdicts() -> Iterator[str]:
    yield VERDICTS
    by_predicate = verdicts_by_predicate()
    for predicate in public_functions(RULES):
        verdict = by_predicate.get(predicate, "")
        named = [file.link for file in INDEX.files if verdict and _names_verdict(file, verdict)]
        cells = (
            f"`{predicate}`",
            f"`{verdict.lower()}`" if verdict else "",
            rows_of(predicate) or _through(RULES, predicate),
            _taken_away({predicate}),
            _shortened(named),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _shortened(links: list[str]) -> str:
    more = len(links) - ELSEWHERE_MAX
    return ", ".join([*links[:ELSEWHERE_MAX], *([f"{more} more"] if more > 0 else [])])


def rows_of(predicate: str) -> str:
    if predicate == "verdict_of":
        return f"all {len(ROWS)}"
    if predicate == "missing_proof":
        return f"{len({row.missing for row in ROWS if row.missing})} reasons"
    if predicate in _code_names(by_offsets):
        return str(len(BY_OFFSETS))
    names = {name for name, function in PREDICATES.items() if predicate in _code_names(function)}
    return str(sum(bool(names & row.true) for row in ROWS)) if names else ""


def _code_names(function: object) -> set[str]:
    code = getattr(function, "__code__", None)
    return {getattr(function, "__name__", ""), *(code.co_names if code is not None else ())}


def verdicts_by_predicate() -> dict[str, str]:
    """From `if is_x(...): return Verdict.X` in `verdict_of`."""
    (function,) = [node for node in _functions(_tree_of(RULES)) if node.name == "verdict_of"]
    pairs = {}
    for node in ast.walk(function):
        match node:
            case ast.If(test=ast.Call(func=ast.Name(id=name)), body=[ast.Return(value=ast.Attribute(attr=verdict))]):
                pairs[name] = verdict
    return pairs


def _names_verdict(file: File, verdict: str) -> bool:
    return file.name != "evaluation/test_rules.py" and bool(file.words & {verdict, verdict.lower()})


def _guards() -> Iterator[str]:
    yield GUARDS
    for file in GUARDED:
        path = f"recovery/{file}"
        for function in functions_of(path):
            taken = _taken_away({function})
            if function.startswith("_") and not taken:
                continue
            shown = ", ".join(INDEX.using(path, function)) or _through(path, function)
            yield f"| `{file}` `{function}` | {shown} | {taken} |"
    yield ""


def _through(path: str, function: str) -> str:
    """What calls it instead of a test: public functions and classes of its folder, or else the commands that import it."""
    inside = sorted({name for _, name in callers(path, function) if not name.startswith("_")})
    if inside:
        return ", ".join(f"through `{name}`" for name in inside)
    return ", ".join(f"by `{command}`" for command in commands_with(path, function))


def commands_with(path: str, function: str) -> list[str]:
    """Files of the room of commands that import it."""
    folder = ROOT / "exporter" / "commands"
    imports = {each.name: set(_modules(ast.parse(each.read_text(encoding="utf-8")))) for each in folder.glob("*.py")}
    return sorted(f"commands/{name}" for name, modules in imports.items() if f"{_module(path)}.{function}" in modules)


def callers(path: str, function: str) -> set[tuple[str, str]]:
    """(file, function or class) in the same folder that calls it, directly or through others."""
    folder = path.rpartition("/")[0]
    uses: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for file in sorted((ROOT / "exporter" / folder).glob("*.py")):
        own, tree = f"{folder}/{file.name}", ast.parse(file.read_text(encoding="utf-8"))
        place = dict.fromkeys(_defined(tree), own)
        for node in (each for each in tree.body if isinstance(each, ast.ImportFrom) and each.module):
            place |= {
                alias.name: f"{str(node.module).removeprefix('exporter.').replace('.', '/')}.py" for alias in node.names
            }
        for defined in (each for each in tree.body if isinstance(each, DEFINITIONS)):
            uses[own, defined.name] = {(place[name], name) for name in _names_in(defined) if name in place}
    found = {(path, function)}
    while more := {user for user, used in uses.items() if used & found} - found:
        found |= more
    return found - {(path, function)}


DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _defined(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, DEFINITIONS)}


def _invariants() -> Iterator[str]:
    yield INVARIANTS
    for invariant in invariants():
        cells = (invariant, ", ".join(checks_of(invariant)), *map("; ".join, found_by(invariant)))
        yield f"| {' | '.join(cells)} |"
    yield ""


def invariants() -> list[str]:
    """The rows of the table in the model's README."""
    return re.findall(r"^\| (I\d) \|", (MODEL / "README.md").read_text(encoding="utf-8"), re.MULTILINE)


def checks_of(invariant: str) -> list[str]:
    """Links to the functions of the model that can report its violation."""
    return [
        f"[{path.stem}](verification/model/{path.name}) `{node.name}`"
        for path in sorted(MODEL.glob("*.py"))
        if path.stem in {"checks", "liveness", "writes"}
        for node in _functions(ast.parse(path.read_text(encoding="utf-8")))
        if any(isinstance(each, ast.Constant) and each.value == invariant for each in ast.walk(node))
    ]


def found_by(invariant: str) -> tuple[list[str], list[str]]:
    """The titles of known lies that violate it, and the names of defects and missing steps that do."""
    lies = [_escaped(lie.title) for lie in LIES if _is_expected(lie, invariant)]
    defects = (*DEFECTS, *NEEDED)
    return lies, [_escaped(defect.name) for defect in defects if _is_expected(defect.lie, invariant)]


def _is_expected(lie: Lie, invariant: str) -> bool:
    return any(expected == invariant for expected, _ in lie.expected)


def _taken_away(names: set[str]) -> str:
    return "; ".join(_escaped(defect.name) for defect in (*DEFECTS, *NEEDED) if names & _patched(defect))


def _patched(defect: Defect) -> set[str]:
    return {name for _, name, _ in defect.patches}


def public_functions(path: str) -> list[str]:
    """Of a file of the exporter, in its order."""
    return [name for name in functions_of(path) if not name.startswith("_")]


def functions_of(path: str) -> list[str]:
    """The functions at the top of a file of the exporter, in its order."""
    return [node.name for node in _tree_of(path).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _module(path: str) -> str:
    return f"exporter.{path.removesuffix('.py').replace('/', '.')}"


def _tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / "exporter" / path).read_text(encoding="utf-8"))


def _names_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Load()):
                yield name
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                yield f"{owner}.{name}"


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _modules(tree: ast.Module) -> Iterator[str]:
    """Modules that a file imports, and names in them, which may be modules too."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Import(names=names):
                yield from (alias.name for alias in names)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
