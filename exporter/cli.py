"""The command line: the only reader of argv and of the environment."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from exporter.commands.arguments import PROGRAM, build_parser
from exporter.commands.status import ExitStatus
from exporter.config.java_properties import from_java
from exporter.config.loading import ConfigurationError, load
from exporter.config.settings import Settings

COMMANDS = {
    "serve": "serve",
    "once": "once",
    "find-hanging": "find_hanging",
    "list": "list_transactions",
    "describe": "describe",
    "describe-producers": "describe_producers",
    "abort": "abort",
    "complete": "complete",
    "force-terminate": "force_terminate",
    "forceTerminateTransaction": "force_terminate",
}
"""Command -> its module in exporter/commands/, imported when it is run: `once` must not pay for the web server."""

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    options = build_parser().parse_args(arguments)
    try:
        settings = _settings(options, os.environ)
    except ConfigurationError as error:
        for problem in error.problems:
            print(f"{PROGRAM}: {problem}", file=sys.stderr)
        return ExitStatus.COULD_NOT_RUN
    _configure_logging(settings.log_level)
    options.state_folder = state_folder(os.environ)
    options.state_path = state_path(settings, options.state_folder)
    command = importlib.import_module(f"exporter.commands.{COMMANDS[options.command]}")
    try:
        status: int = command.run(options, settings)
        sys.stdout.flush()  # here, where a reader that has left can still be told from a failure
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): not our failure, and nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.ANSWERED
    return status


def _settings(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    given = vars(options)
    flags = {name.removeprefix("setting:"): value for name, value in given.items() if name.startswith("setting:")}
    config_file, java_file = given.get("config_file"), given.get("command_config")
    return load(
        file=None if config_file is None else (config_file, _text(config_file)),
        java={} if java_file is None else from_java(java_file, _text(java_file)),
        environment=environment,
        flags=flags,
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{path}: cannot be read: {error}"]) from error


def state_folder(environment: Mapping[str, str]) -> Path | None:
    """Where this user's programs keep their state; None where nobody says."""
    folder = environment.get("STATE_DIRECTORY") or environment.get("XDG_STATE_HOME")
    if folder:
        return Path(folder, PROGRAM)
    home = environment.get("HOME")
    return Path(home, ".local", "state", PROGRAM) if home else None


def state_path(settings: Settings, folder: Path | None) -> Path | None:
    """Where first-seen times are kept; None for nowhere. `auto` takes a file of its own for each set of brokers."""
    if settings.state_file == "none":
        return None
    if settings.state_file != "auto":
        return Path(settings.state_file)
    if folder is None:
        return None
    brokers = ",".join(f"{host}:{port}" for host, port in settings.kafka.bootstrap_servers)
    name = hashlib.sha256(brokers.encode()).hexdigest()[:12]
    return folder / f"state-{name}.json"


def _configure_logging(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # What a client library has to say about a broker is told by us, once per change, with what it costs.
    quiet = logging.DEBUG if level == "debug" else logging.CRITICAL
    for name in ("kafka", "apscheduler", "uvicorn"):
        logging.getLogger(name).setLevel(quiet)
