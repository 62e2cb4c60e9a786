"""The command line: the only reader of argv and of the environment."""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from exporter import __version__
from exporter.commands.status import ExitStatus
from exporter.config.loading import ConfigurationError, flag_name, load
from exporter.config.settings import SETTINGS, Settings

PROGRAM = "kafka-transaction-exporter"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        settings = _settings(options, os.environ)
    except ConfigurationError as error:
        for problem in error.problems:
            print(f"{PROGRAM}: {problem}", file=sys.stderr)
        return ExitStatus.COULD_NOT_RUN
    _configure_logging(settings.log_level)
    try:
        return _run(options, settings)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): not our failure, and nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.ANSWERED


def _run(options: argparse.Namespace, settings: Settings) -> int:
    # Each command brings its own imports: `once` must not pay for the scheduler and the web server.
    if options.command == "serve":
        from exporter.commands.serve import serve  # noqa: PLC0415

        return serve(settings, state_path=state_path(settings, os.environ))
    from exporter.commands.once import once  # noqa: PLC0415

    return once(settings, output=options.format, repeat=options.repeat, timings=options.timings)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; the documentation is checked against its help texts."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--config.file", dest="config_file", metavar="FILE", help="YAML file with settings")
    shared.add_argument(
        "--bootstrap-server",
        dest="setting:kafka.bootstrap.servers",
        metavar="HOST:PORT[,...]",
        default=argparse.SUPPRESS,
        help="the same as --kafka.bootstrap.servers",
    )
    table = shared.add_argument_group(
        "settings", "each also as YAML key and environment variable: docs/configuration.md"
    )
    for setting in SETTINGS:
        if not setting.is_secret:
            default = "" if setting.default is None else f" Default: {setting.default}."
            table.add_argument(
                flag_name(setting.name),
                dest=f"setting:{setting.name}",
                metavar="VALUE",
                default=argparse.SUPPRESS,
                help=setting.help.replace("%", "%%") + default,
            )
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Finds Kafka transactions that will never end, and says why."
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("serve", parents=[shared], help="watch the cluster and serve /metrics and a status page")
    once = commands.add_parser("once", parents=[shared], help="one full cycle, printed")
    once.add_argument("--format", choices=("table", "json", "prometheus"), default="table", help="default: table")
    once.add_argument(
        "--repeat", type=_count, default=1, metavar="N", help="run N cycles in this process, print the last"
    )
    once.add_argument(
        "--timings", choices=("json",), help="print the seconds of each phase of each cycle instead of the transactions"
    )
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1")
    return int(text)


def _settings(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    flags = {
        name.removeprefix("setting:"): value for name, value in vars(options).items() if name.startswith("setting:")
    }
    file = None
    if options.config_file is not None:
        try:
            file = (options.config_file, Path(options.config_file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError([f"{options.config_file}: cannot be read: {error}"]) from error
    return load(file=file, environment=environment, flags=flags)


def state_path(settings: Settings, environment: Mapping[str, str]) -> Path | None:
    """Where first-seen times are kept; None for nowhere. `auto` takes a file of its own for each set of brokers."""
    if settings.state_file == "none":
        return None
    if settings.state_file != "auto":
        return Path(settings.state_file)
    folder = environment.get("STATE_DIRECTORY") or environment.get("XDG_STATE_HOME")
    home = environment.get("HOME")
    if not folder:
        if not home:
            return None
        folder = str(Path(home, ".local", "state"))
    brokers = ",".join(f"{host}:{port}" for host, port in settings.kafka.bootstrap_servers)
    name = hashlib.sha256(brokers.encode()).hexdigest()[:12]
    return Path(folder, PROGRAM, f"state-{name}.json")


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
