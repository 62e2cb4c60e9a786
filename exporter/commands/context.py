"""The input of a command: its options, the settings, and what the command line knows of the machine."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from exporter.config.loading import SettingsWithSources
from exporter.config.settings import Settings

CONFIG_FILE: Final = "KAFKA_TRANSACTION_EXPORTER_CONFIG_FILE"
CLUSTERS_FILE: Final = "KAFKA_TRANSACTION_EXPORTER_CLUSTERS_FILE"
"""Environment variables: paths for `--config.file` and `--clusters`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings, their origin, and how to read them again."""

    loaded: SettingsWithSources
    load: Callable[[], SettingsWithSources]
    """Raises ConfigurationError."""
    files: tuple[Path, ...] = ()
    """Settings files that the command line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Made once, by the command line, which alone reads argv and the environment."""

    options: argparse.Namespace
    """The command's own options, as its parser makes them."""
    words: tuple[str, ...] = ()
    """The command line behind the name of the program; empty if unknown."""
    state_folder: Path | None
    """The user's directory for state; None if it is unknown."""
    may_colour: bool
    is_submitted: bool = False
    """True if spark-submit started the process, and chose master and memory."""
    file_of_environment: str | None = None
    """The settings file that the variable CONFIG_FILE names."""
    configured: Configuration | None = None
    """Settings in use; None for commands that need no settings."""

    @property
    def settings_source(self) -> Configuration:
        """The settings, of a command that has settings."""
        assert self.configured is not None
        return self.configured

    def given(self, flags: Iterable[str]) -> tuple[str, ...]:
        """Returns those of the flags that the command line has, with a default or another value."""
        found = {word.partition("=")[0] for word in self.words}
        return tuple(flag for flag in flags if flag in found)

    @property
    def audit_path(self) -> Path | None:
        """The audit log of commands without `--audit-log`; None if there is no state directory."""
        return None if self.state_folder is None else self.state_folder / "audit.jsonl"

    def state_path(self, settings: Settings, cluster: Settings) -> Path | None:
        """The state file of `cluster`; None for no file. `settings` are those of the fleet, or the same ones.

        `auto` names it after the brokers; also after the cluster, where several of a fleet have the same ones.
        """
        brokers = ",".join(f"{host}:{port}" for host, port in cluster.kafka.bootstrap_servers)
        own = f"-{_digest(str(cluster.fleet_name))}" if cluster.has_namesakes else ""
        if settings.state_file == "none" or (settings.state_file == "auto" and self.state_folder is None):
            return None
        if settings.state_file != "auto":
            path = Path(settings.state_file)
            return path.with_name(f"{path.stem}{own}{path.suffix}")
        assert self.state_folder is not None
        return self.state_folder / f"state-{_digest(brokers)}{own}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
