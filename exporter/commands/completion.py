"""`completion`: a script for bash, zsh or fish that completes commands, options and values; made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

from exporter.commands.arguments import FILE, PROGRAM, STATES, VERDICT, build_parser
from exporter.commands.context import Context
from exporter.commands.states import KNOWN_STATES
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.verdicts import Verdict

FUNCTION = "_" + PROGRAM.replace("-", "_")
VALUES = {STATES: KNOWN_STATES, VERDICT: tuple(verdict.label for verdict in Verdict)}
"""Words that may stand for a metavar, where the parser itself has no choices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option, or an argument without a name, of a command."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    needs_value: bool
    """False for one that may stand alone: the next option is then as likely as its value."""
    values: tuple[str, ...]
    is_file: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command with its options; the program itself has no name."""

    name: str
    help: str
    options: tuple[Option, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """Every name of every option."""
        return tuple(name for option in self.options for name in option.names)

    @property
    def words(self) -> tuple[str, ...]:
        """What stands without a name."""
        return tuple(value for option in self.options if not option.names for value in option.values)


def run(context: Context, _: Settings | None) -> int:
    """Print the script; the exit status."""
    options = context.options
    program, *commands = told(build_parser())
    print({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](program, commands))
    return ExitStatus.ANSWERED


def told(parser: argparse.ArgumentParser) -> list[Command]:
    """The program itself and its commands, in the parser's order."""
    told = [Command(name="", help="", options=_options(parser))]
    for action in parser._actions:  # noqa: SLF001 - argparse tells it nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001 - as above
            told += [
                Command(name=name, help=helps.get(name, "the same under Kafka's own name"), options=_options(command))
                for name, command in action.choices.items()
            ]
    return told


def _options(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    return tuple(
        Option(
            names=tuple(action.option_strings),
            help=(action.help or "").replace("%%", "%"),
            takes_value=action.nargs != 0,
            needs_value=action.nargs not in {0, "?"},
            values=tuple(map(str, action.choices or VALUES.get(str(action.metavar), ()))),
            is_file=action.metavar == FILE,
        )
        for action in parser._actions  # noqa: SLF001 - argparse tells it nowhere else
        if not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - as above
    )


def bash(program: Command, commands: Iterable[Command]) -> str:
    """For `source <(kafka-transaction-exporter completion bash)`."""
    every = [program, *commands]
    files = sorted({name for command in every for option in command.options if option.is_file for name in option.names})
    silent = sorted(
        {
            name
            for command in every
            for option in command.options
            if option.needs_value and not option.values and not option.is_file
            for name in option.names
        }
    )
    choices = [
        f"      {command.name}:{name}) words='{' '.join(option.values)}' ;;"
        for command in every
        for option in command.options
        if option.values
        for name in option.names
    ]
    words = [f"      {command.name}) words='{' '.join((*command.words, *command.flags))}' ;;" for command in commands]
    names = " ".join(command.name for command in commands)
    return "\n".join(
        [
            f"# bash completion of {PROGRAM}",
            f"{FUNCTION}() {{",
            "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' word words=''",
            "  # bash takes --option=value apart at the equals sign",
            "  if [[ $current == '=' ]]; then current=''",
            "  elif [[ $previous == '=' ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi",
            '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            f'    case " {names} " in *" $word "*) command=$word; break ;; esac',
            "  done",
            "  case $previous in",
            *([f'    {"|".join(files)}) COMPREPLY=($(compgen -f -- "$current")); return ;;'] if files else []),
            *([f"    {'|'.join(silent)}) COMPREPLY=(); return ;;"] if silent else []),
            "  esac",
            '  case "$command:$previous" in',
            *choices,
            "  esac",
            "  if [[ -z $words ]]; then",
            "    case $command in",
            f"      '') words='{names} {' '.join(program.flags)}' ;;",
            *words,
            "    esac",
            "  fi",
            '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            f"complete -F {FUNCTION} {PROGRAM}",
        ]
    )


def zsh(program: Command, commands: Iterable[Command]) -> str:
    """For a file `_kafka-transaction-exporter` in a folder of `$fpath`, or to be sourced after compinit."""
    every = list(commands)
    lines = [
        f"#compdef {PROGRAM}",
        f"{FUNCTION}() {{",
        "  local context state state_descr line",
        "  typeset -A opt_args",
        "  _arguments -C \\",
        *(f"    {_zsh_spec(option)} \\" for option in program.options if option.names),
        "    '1:command:->command' '*::argument:->argument'",
        "  case $state in",
        "    command)",
        "      local -a commands=(",
        *(f"        {_quoted(command.name + ':' + command.help.replace(':', ' '))}" for command in every),
        "      )",
        "      _describe command commands ;;",
        "    argument)",
        "      case $words[1] in",
    ]
    for command in every:
        specs = " ".join(_zsh_spec(option) for option in command.options)
        lines.append(f"        {command.name}) _arguments {specs} ;;")
    lines += [
        "      esac ;;",
        "  esac",
        "}",
        f'if [[ $funcstack[1] == _{PROGRAM} ]]; then {FUNCTION} "$@"; else compdef {FUNCTION} {PROGRAM}; fi',
    ]
    return "\n".join(lines)


def _zsh_spec(option: Option) -> str:
    """One argument of `_arguments`; with several names one each, by brace expansion."""
    value = ""
    if option.takes_value:
        kind = "_files" if option.is_file else f"({' '.join(option.values)})" if option.values else " "
        value = f"{':' if option.needs_value else '::'}value:{kind}"
    if not option.names:
        return _quoted(f"1{value}")
    explained = "".join(f"\\{c}" if c in "[]:\\" else c for c in option.help)
    return " ".join(_quoted(f"{name}[{explained}]{value}") for name in option.names)


def fish(program: Command, commands: Iterable[Command]) -> str:
    """For a file in `~/.config/fish/completions/`."""
    every = list(commands)
    start = f"complete -c {PROGRAM}"
    lines = [f"# fish completion of {PROGRAM}", f"{start} -f"]
    lines += [_fish_option(start, "__fish_use_subcommand", option) for option in program.options]
    for command in every:
        lines.append(f"{start} -n __fish_use_subcommand -a {command.name} -d {_fish_quoted(command.help)}")
        seen = f"'__fish_seen_subcommand_from {command.name}'"
        lines += [_fish_option(start, seen, option) for option in command.options]
    return "\n".join(lines)


def _fish_option(start: str, condition: str, option: Option) -> str:
    words = [start, "-n", condition]
    for name in option.names:
        words += ["-l", name.removeprefix("--")] if name.startswith("--") else ["-s", name.removeprefix("-")]
    if option.names and option.needs_value:
        words.append("-r -F" if option.is_file else "-x")
    if option.values:
        words += ["-a", _fish_quoted(" ".join(option.values))]
    return " ".join([*words, "-d", _fish_quoted(option.help)])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
