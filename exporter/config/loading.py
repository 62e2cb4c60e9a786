"""Combines settings: defaults < YAML file < environment < flags. All errors are reported at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from exporter.config.kafka_section import ALIASES, SAME_AS_OURS, in_client_file
from exporter.config.references import ReadText, ReferenceSources
from exporter.config.settings import BY_NAME, SETTINGS, PublishSettings, Settings, complete_values, impossible
from exporter.config.sources import SettingSource, merged, resolve_references
from exporter.config.suggestions import CLUSTERS, instead_of, nearest
from exporter.config.table import Setting, Values, fill_record
from exporter.files import read_text

ENVIRONMENT_PREFIX = "KAFKA_TRANSACTION_EXPORTER__"
"""Prefix with two underscores, so that variables that Kubernetes creates for a Service of the same name are not read as
settings.
"""


VALUES_MAX = 100_000
"""Limit for one file. Ten lines of aliases of aliases can expand to a billion values."""


class ConfigurationError(Exception):
    """One or more settings are wrong. `problems` are sentences, each with its place."""

    def __init__(self, problems: Iterable[str], *, files: Iterable[Path] = ()) -> None:
        """`files` are those that the settings refer to: with other contents they may be right."""
        self.problems = tuple(problems)
        self.files = tuple(files)
        super().__init__("\n".join(self.problems))


class WrongUsageError(ConfigurationError):
    """Options of the command line contradict each other, or the command lacks one; the settings may be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsWithSources:
    """Settings, and the values and files they were loaded from."""

    settings: Settings
    written: Mapping[str, SettingSource] = field(repr=False)
    """Source of each setting without its default. References are resolved, so this contains secrets."""
    files: tuple[Path, ...]
    """A change of these files changes the settings, or the certificates that they name."""


def environment_name(name: str) -> str:
    """The environment variable of a setting: section and key joined by two underscores, dots as one."""
    section, key = name.split(".", 1)
    return f"{ENVIRONMENT_PREFIX}{section}__{key.replace('.', '_')}".upper()


def flag_name(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")


def load(
    *,
    file: tuple[str, str] | None,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
    java: Mapping[str, SettingSource] = MappingProxyType({}),
    java_file: str | None = None,
    cluster: Mapping[str, SettingSource] | None = None,
    cluster_place: str = "",
    read: ReadText = read_text,
) -> SettingsWithSources:
    """The settings of `file` (its path and text), `java`, `environment` and `flags` (setting name -> value).

    The later of them override the earlier; `cluster` is for one cluster, at `cluster_place`, and overrides all others.
    `java_file` is the path of what `java` was read from.

    Raises ConfigurationError with every problem found.
    """
    problems: list[str] = []
    of_file = _from_yaml(file, problems)
    is_file_unread = bool(problems) and not of_file
    written = merged(of_file, java, _from_environment(environment, problems), _from_flags(flags), cluster or {})
    elsewhere = ReferenceSources(environment, read)
    written = resolve_references(written, elsewhere, problems)
    parsed: Values = _parse(written, problems)
    if parsed.get("kafka.bootstrap.servers", "") is None and not is_file_unread:  # it may well be in there
        place = _place(written, "kafka.bootstrap.servers")
        fault = f"kafka.bootstrap.servers is {'empty' if place else 'not set'}: name"
        if cluster is not None:
            problems.append(f"{place or cluster_place}{fault} its brokers in its block")
        else:
            where = ", for example" if java_file is None else f" in {java_file} as bootstrap.servers, or"
            fleet = "" if file is None else "; with the common file of a fleet also use --clusters FILE"
            problems.append(f"{place}{fault} a broker{where} --bootstrap-server localhost:9092{fleet}")
    if not problems:
        parsed = complete_values(parsed)
        problems += [
            f"{_place(written, name)}{name} {sentence}{'' if name in written else in_client_file(name, java_file)}"
            for name, sentence in impossible(parsed)
        ]
    if problems:
        raise ConfigurationError(problems, files=elsewhere.files)
    named = [Path(parsed[setting.name]) for setting in SETTINGS if setting.is_path and parsed[setting.name] is not None]
    return SettingsWithSources(
        settings=fill_record(Settings, parsed), written=written, files=tuple(dict.fromkeys([*elsewhere.files, *named]))
    )


def load_publish(
    *,
    file: tuple[str, str] | None,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
    read: ReadText = read_text,
    refuses_unknown: bool = False,
) -> PublishSettings:
    """The settings of the web server as `load` has them, whatever is wrong with the others.

    A running exporter keeps its previous settings while its file has errors, and can still be asked. Raises
    ConfigurationError for a file that is not YAML, and for these settings; with `refuses_unknown` for unknown ones too.
    """
    of_all: list[str] = []
    written = merged(_from_yaml(file, of_all), _from_environment(environment, problems=[]), _from_flags(flags))
    problems = [problem for problem in of_all if refuses_unknown and ": publish." in problem]
    own = {name: source for name, source in written.items() if name.startswith("publish.")}
    parsed: Values = _parse(resolve_references(own, ReferenceSources(environment, read), problems), problems)
    if problems:
        raise ConfigurationError(problems)
    return fill_record(PublishSettings, parsed)


def bootstrap_servers_of(
    *,
    file: tuple[str, str] | None,
    java: Mapping[str, SettingSource],
    environment: Mapping[str, str],
    cluster: Mapping[str, SettingSource],
) -> tuple[tuple[str, int], ...] | None:
    """The brokers of a cluster of a fleet, whatever is wrong with its other settings; None where they are not known."""
    written = merged(_from_yaml(file, []), java, _from_environment(environment, []), cluster)
    own = {name: source for name, source in written.items() if name == "kafka.bootstrap.servers"}
    servers: tuple[tuple[str, int], ...] | None
    servers = _parse(resolve_references(own, ReferenceSources(environment), []), []).get("kafka.bootstrap.servers")
    return servers


def _from_flags(flags: Mapping[str, str]) -> dict[str, SettingSource]:
    return {name: SettingSource(value, flag_name(name)) for name, value in flags.items()}


def _parse(written: Mapping[str, SettingSource], problems: list[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for setting in SETTINGS:
        source = written.get(setting.name, SettingSource(setting.default, "default"))
        if source.value is None:
            parsed[setting.name] = None
            if setting.default is not None:
                problems.append(f"{source.place}: {setting.name} has no value: remove it to use the default")
            continue
        try:
            parsed[setting.name] = setting.kind.parse(source.value)
        except ValueError as error:
            problems.append(f"{source.place}: {setting.name} {error}")
    return parsed


def _place(written: Mapping[str, SettingSource], name: str) -> str:
    """Returns the place of a written value, to begin a sentence about it; empty for a default."""
    return f"{written[name].place}: " if name in written else ""


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, SettingSource]:
    names = {environment_name(name): name for name in [*BY_NAME, *ALIASES]}
    with_one_underscore = {variable.replace("__", "_"): variable for variable in names}
    found = {}
    for variable, value in environment.items():
        if variable in with_one_underscore:
            problems.append(f"{variable}: unknown setting; did you mean {with_one_underscore[variable]}?")
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = names.get(variable)
        if name is None:
            problems.append(f"{variable}: unknown setting{nearest(variable, names)}")
        else:
            found[ALIASES.get(name, name)] = SettingSource(value, variable)
    return found


def composed(path: str, text: str) -> yaml.Node | None:
    """The root of a YAML file, None of an empty one; `value_of` accepts every node in it.

    Raises ConfigurationError with the line.
    """
    place = path
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if _expanded(root, {}) > VALUES_MAX:
            raise ValueError(f"with its YAML aliases it has more than {VALUES_MAX} values")  # noqa: TRY301
        for node in _parts(root, set()):
            place = f"{path}:{node.start_mark.line + 1}"
            value_of(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else place
        raise ConfigurationError([f"{place}: not valid YAML: {_without_values(error)}"]) from error
    except (
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:  # a date in month 13, a key that is a list
        raise ConfigurationError([f"{place}: not valid YAML: {_without_values(error)}"]) from error
    return root


_NO_VALUE = re.compile(r"(?:[^']|'<[a-z ]+>')*")
"""Everything before the first quoted part that is not the name of a token."""


def _without_values(error: Exception) -> str:
    """The library's sentence up to the first value, which may be a password: `!Summer` is a tag, `*Summer` an alias."""
    said = str(getattr(error, "problem", None) or error) or type(error).__name__
    if said.startswith(r"found character '\t'"):
        return "a tab: indent with spaces"
    if said.startswith("expected <block end>"):
        return f"{said}: is this line indented as those of its section?"
    shown = _NO_VALUE.match(said)
    assert shown is not None, "it matches the empty text"
    is_cut = shown.end() < len(said)
    return f"{shown[0]}... (a value that begins with one of !*&%@`|>{{[ needs quotes)" if is_cut else said


def _parts(node: yaml.Node | None, seen: set[int]) -> Iterable[yaml.Node]:
    """All nodes below `node` and itself, the smallest first, each once: an alias may refer to a node that contains it."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _parts(key, seen)
            yield from _parts(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _parts(item, seen)
    yield node


def _expanded(node: yaml.Node | None, known: dict[int, int]) -> int:
    """The number of values after every alias is replaced; `known` by the id of a node."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = 1  # an alias may refer to a node that contains it
        inside = (inner for pair in node.value for inner in pair) if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 + sum(_expanded(inner, known) for inner in inside)
    return known[id(node)]


_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})


def value_of(node: yaml.Node) -> Any:
    return yaml.SafeLoader("").construct_object(node, deep=True)


def _from_yaml(file: tuple[str, str] | None, problems: list[str]) -> dict[str, SettingSource]:
    """The values in the text of a file, with its path; none without a file."""
    if file is None:
        return {}
    path, text = file
    try:
        root = composed(path, text)
    except ConfigurationError as error:
        problems += error.problems
        return {}
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        is_java = re.search(r"^[\w.-]+ *=", text, re.MULTILINE)
        java = ", as YAML; the file of a Java client is for --command-config" if is_java else ""
        problems.append(f"{path}:{root.start_mark.line + 1}: must be a mapping of sections{java}")
        return {}
    return settings_below(path, root, problems)


def settings_below(path: str, mapping: yaml.MappingNode, problems: list[str]) -> dict[str, SettingSource]:
    """Settings by full name from a mapping of sections; unknown names are added to `problems`."""
    found: dict[str, SettingSource] = {}
    for name, node in _flatten(mapping, ""):
        _take(path, name, node, found, problems)
    return found


def _flatten(mapping: yaml.MappingNode, prefix: str) -> Iterable[tuple[str, yaml.Node]]:
    """(full name, value) of every leaf; nested mappings are flattened, so `a: {b: 1}` and `a.b: 1` are the same."""
    for key, value in mapping.value:
        name = f"{prefix}{key.value}"
        if isinstance(value, yaml.MappingNode) and name != CLUSTERS and ALIASES.get(name, name) not in BY_NAME:
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _mapping_problem(setting: Setting) -> str:
    """Returns the end of a sentence about a setting whose value is written as a mapping."""
    if "array" in setting.kind.schema["type"]:
        try:
            setting.kind.parse({})
        except ValueError as error:
            return str(error)
    return "is a mapping: it must be a single value, in quotes if it begins with {"


def _take(path: str, name: str, node: yaml.Node, found: dict[str, SettingSource], problems: list[str]) -> None:
    place = f"{path}:{node.start_mark.line + 1}"
    known = ALIASES.get(name, name)
    if name in SAME_AS_OURS:
        if str(getattr(node, "value", "")).lower() != SAME_AS_OURS[name]:
            problems.append(f"{place}: {name} must be {SAME_AS_OURS[name]}: no other value is supported")
        return
    if known not in BY_NAME:
        inside = next((setting for setting in BY_NAME if setting.startswith(f"{name}.")), None)
        section = f"a section, not a setting: indent its settings, or write {inside}: ..."
        problems.append(f"{place}: {name}: {section if inside else f'unknown setting{instead_of(name, BY_NAME)}'}")
        return
    if isinstance(node, yaml.MappingNode):
        problems.append(f"{place}: {name} {_mapping_problem(BY_NAME[known])}")
        return
    if known in found:
        problems.append(f"{place}: {name} is set twice, first at {found[known].place}")
        return
    # A number stays as it is written: YAML makes another one of 0755, 1_000 and 12:30:00, as a password may be.
    is_number = node.tag in _NUMBERS and "number" in BY_NAME[known].kind.schema["type"]
    found[known] = SettingSource(node.value if is_number else value_of(node), place)
