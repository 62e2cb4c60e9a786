"""Runs the command line: parses options, loads settings, starts the command.

The only reader of argv and environment; only object stores are found by variables that their libraries read.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

# numpy starts a thread for linear algebra, with its memory, for each core when it is loaded. The exporter does not use it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from exporter import PROGRAM
from exporter.commands.arguments import COMMANDS, build_parser
from exporter.commands.context import CLUSTERS_FILE, CONFIG_FILE, Configuration, Context
from exporter.commands.lines import fit_terminal
from exporter.commands.status import ExitStatus
from exporter.config.fleet import choose_cluster, expecting, load_fleet
from exporter.config.java_properties import from_java
from exporter.config.loading import ConfigurationError, SettingsWithSources, WrongUsageError, load, load_publish
from exporter.config.settings import PublishSettings, Settings
from exporter.files import read_text
from exporter.log_format import formatter_of
from exporter.snapshot import CLUSTER_ID_VARIABLE

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    _mend_streams()
    parser = build_parser()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words == ["help"]:
        words = ["--help"]
    elif words[0] == "help":
        words = [*words[1:], "--help"]
    if "_ARGCOMPLETE" in os.environ:
        importlib.import_module("exporter.commands.completion").complete(parser)
    options = _parsed(parser, words)
    context = Context(
        options=options,
        words=tuple(words),
        state_folder=state_folder(os.environ),
        may_colour=may_colour(os.environ),
        is_submitted="PYSPARK_GATEWAY_PORT" in os.environ,
        file_of_environment=os.environ.get(CONFIG_FILE) or None,
    )
    if options.command == "pipeline" or vars(options).get("engine") == "spark":
        # Otherwise Spark's workers use whatever python3 the path has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if COMMANDS[options.command].needs_only_publish:
        try:
            return _run(context, _load_publish(options, os.environ))
        except ConfigurationError as error:
            return _refused(error)
    needs_settings = COMMANDS[options.command].needs_settings
    if needs_settings is None or not needs_settings(options):
        return _run(context, None)
    load = partial(_load, options, os.environ)
    try:
        loaded = load()
    except ConfigurationError as error:
        # Whoever names a fleet has named the settings.
        hint = "" if isinstance(error, WrongUsageError) else COMMANDS[options.command].without_settings
        return _refused(error, hint)
    _configure_logging(loaded.settings)
    files = tuple(Path(path) for path in _source_files(options, os.environ) if path is not None)
    return _run(replace(context, configured=Configuration(loaded=loaded, load=load, files=files)), loaded.settings)


def _refused(error: ConfigurationError, hint: str = "") -> int:
    for problem in filter(None, (*error.problems, hint)):
        print(fit_terminal(f"{PROGRAM}: {problem}", stream=sys.stderr), file=sys.stderr)
    return ExitStatus.WRONG_USAGE if isinstance(error, WrongUsageError) else ExitStatus.COULD_NOT_RUN


def _parsed(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parses the command line; a long help may be printed to a pipe whose reader has ended. Raises SystemExit."""
    try:
        try:
            return parser.parse_args(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _print_nothing_more()
        raise SystemExit(ExitStatus.ANSWERED) from None
    except OSError as error:
        raise SystemExit(_unprinted(error)) from None


def _run(context: Context, settings: Settings | PublishSettings | None) -> int:
    options = context.options
    command = COMMANDS[options.command]
    module = importlib.import_module(f"exporter.commands.{command.module}")
    status: int = ExitStatus.COULD_NOT_RUN if command.writes else ExitStatus.ANSWERED
    try:
        status = module.run(context, settings)
        sys.stdout.flush()  # here, where a closed pipe is an exception of its own
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has ended (`| head`): not a failure of a command that only reads, so nothing is reported.
        _print_nothing_more()
    except OSError as error:
        if isinstance(error, PermissionError) and error.filename is not None:
            print(f"{PROGRAM}: {error.filename} is closed to this user: {error.strerror}", file=sys.stderr)
            return ExitStatus.COULD_NOT_RUN
        return _unprinted(error)
    return status


def _unprinted(error: OSError) -> ExitStatus:
    """Says that the output has no more space. Raises any other error."""
    if error.errno != errno.ENOSPC:
        raise error
    _print_nothing_more()
    print(f"{PROGRAM}: the output could not be printed completely: {error.strerror}", file=sys.stderr)
    return ExitStatus.COULD_NOT_RUN


def _print_nothing_more() -> None:
    """Discards what is still buffered: printing it at exit would fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _mend_streams() -> None:
    """Printing never ends the process: neither a closed stream nor an encoding that lacks a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - it lives as long as we
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def may_colour(environment: Mapping[str, str]) -> bool:
    """False if the user wants no colour (no-color.org), or the terminal has none."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def _source_files(
    options: argparse.Namespace, environment: Mapping[str, str]
) -> tuple[str | None, str | None, str | None]:
    """Paths of the YAML file, of the Java client's file and of a fleet's.

    Where no option names one, those of the environment: a command in the exporter's pod needs no option then. A command
    about the exporter itself does not read the client's file of a runbook's login line where the environment names more.
    """
    given = vars(options)
    of_environment = environment.get(CONFIG_FILE) or None, None, environment.get(CLUSTERS_FILE) or None
    is_client_s_read = not (COMMANDS[options.command].is_about_exporter and any(of_environment))
    files = given.get("config_file"), given.get("command_config") if is_client_s_read else None, given.get("clusters")
    return files if any(files) else of_environment


def _flags(options: argparse.Namespace) -> dict[str, str]:
    return {
        name.removeprefix("setting:"): value for name, value in vars(options).items() if name.startswith("setting:")
    }


def _load_publish(options: argparse.Namespace, environment: Mapping[str, str]) -> PublishSettings:
    config_file, _, _ = _source_files(options, environment)
    return load_publish(
        file=_with_text(config_file),
        environment=environment,
        flags=_flags(options),
        refuses_unknown=options.command != "get",  # which asks an exporter that runs with its previous settings
    )


def _load(options: argparse.Namespace, environment: Mapping[str, str]) -> SettingsWithSources:
    given = vars(options)
    flags = _flags(options)
    config_file, java_file, clusters_file = _source_files(options, environment)
    file = _with_text(config_file)
    java = {} if java_file is None else from_java(java_file, _text(java_file))
    if clusters_file is None:
        loaded = load(file=file, java=java, java_file=java_file, environment=environment, flags=flags)
        if given.get("cluster"):
            beside_login = "leave it out beside --command-config, which names the brokers"
            why = "it needs --clusters, the file that has this name" if java_file is None else beside_login
            raise WrongUsageError([f"--cluster {given['cluster']}: {why}"])
    else:
        clusters = clusters_file, _text(clusters_file)
        name = given.get("cluster") or None
        loaded = load_fleet(clusters, file=file, java=java, environment=environment, flags=flags, chosen=name)
        loaded = choose_cluster(loaded, name, one=not COMMANDS[options.command].reads_clusters)
    loaded = expecting(loaded, environment.get(CLUSTER_ID_VARIABLE, ""))
    from exporter.kafka.client.credentials import CredentialsError, client_options  # noqa: PLC0415 - not for completion

    problems, watched = [], loaded.settings.watched
    for cluster in watched:
        try:
            client_options(cluster.settings.kafka)
        except CredentialsError as error:
            source = (cluster.written or loaded.written).get(error.setting)
            problems.append(str(error) if source is None else f"{source.place}: {error}")
    # Of several clusters a command that reads goes on with the others, and reports the failure of this one.
    if problems and (len(problems) == len(watched) or not COMMANDS[options.command].reads_in_part):
        raise ConfigurationError(dict.fromkeys(problems))
    return loaded


def _with_text(path: str | None) -> tuple[str, str] | None:
    return None if path is None else (path, _text(path))


def _text(path: str) -> str:
    try:
        return read_text(Path(path)).removeprefix("\ufeff")  # some editors begin a file with it
    except UnicodeDecodeError as error:
        raise ConfigurationError([f"{path}: cannot be read: it is not text in UTF-8"]) from error
    except OSError as error:
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror or error}"]) from error


def state_folder(environment: Mapping[str, str]) -> Path | None:
    """The user's directory for state; None if it is unknown."""
    folder = environment.get("STATE_DIRECTORY") or environment.get("XDG_STATE_HOME")
    if folder:
        return Path(folder, PROGRAM)
    home = environment.get("HOME")
    return Path(home, ".local", "state", PROGRAM) if home else None


def _configure_logging(settings: Settings) -> None:
    level = settings.log_level
    handler = logging.StreamHandler(sys.stderr)
    on_terminal = sys.stderr.isatty()
    handler.setFormatter(formatter_of(settings.log_format, on_terminal=on_terminal, cluster=settings.cluster_name))
    logging.basicConfig(handlers=[handler], level=level.upper())
    # The exporter reports the state of a broker itself, once per change, with the consequence.
    quiet = logging.DEBUG if level == "debug" else logging.CRITICAL
    for name in ("py4j", "uvicorn"):
        logging.getLogger(name).setLevel(quiet)
    # At its debug level kafka-python logs every request in full, SaslAuthenticate and its password among them.
    logging.getLogger("kafka").setLevel(max(quiet, logging.INFO))
