"""The input of a command: its options, the settings, and what the command line knows of the machine."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from exporter.config.kafka_section import KafkaSettings
from exporter.config.loading import Loaded
from exporter.config.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The settings, their origin, and how to read them again."""

    loaded: Loaded
    load: Callable[[], Loaded]
    """Raises ConfigurationError."""
    files: tuple[Path, ...] = ()
    """Those that the command line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Made once, by the command line, which alone reads argv and the environment."""

    options: argparse.Namespace
    """The command's own options, as its parser makes them."""
    state_folder: Path | None
    """The user's directory for state; None if it is unknown."""
    may_colour: bool
    is_submitted: bool = False
    """True if spark-submit started the process, and chose master and memory."""
    configured: Configured | None = None
    """None for commands that need no settings."""

    @property
    def settings_source(self) -> Configured:
        """The settings, of a command that has settings."""
        assert self.configured is not None
        return self.configured

    @property
    def audit_path(self) -> Path | None:
        """The audit log of commands without `--audit-log`; None if there is no state directory."""
        return None if self.state_folder is None else self.state_folder / "audit.jsonl"

    def state_path(self, settings: Settings, kafka: KafkaSettings) -> Path | None:
        """The state file; None for no file. `auto` takes a separate file for each set of brokers."""
        if settings.state_file == "none":
            return None
        if settings.state_file != "auto":
            return Path(settings.state_file)
        if self.state_folder is None:
            return None
        brokers = ",".join(f"{host}:{port}" for host, port in kafka.bootstrap_servers)
        name = hashlib.sha256(brokers.encode()).hexdigest()[:12]
        return self.state_folder / f"state-{name}.json"
