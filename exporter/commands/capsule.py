"""`capsule`: writes a file with the recorded cycles of an incident, to be sent to somebody else. Sends no request."""

from __future__ import annotations

from pathlib import Path

from exporter.capsules.cycle import CapsuleError
from exporter.capsules.file import Capsule, expected_of, load, pack
from exporter.capsules.replaying import replay
from exporter.capsules.sharing import anonymous, joined, with_summary
from exporter.commands.context import Context
from exporter.commands.incident import incident_named
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.daemon.capsule_folder import folder_beside, recorded_files
from exporter.daemon.kept_file import KeptFileError
from exporter.files import write_new


def run(context: Context, settings: Settings) -> int:
    """Writes the file and prints its summary; returns the exit status."""
    options = context.options
    try:
        capsules, unread = _recorded(context, settings, options.id)
        raw = joined(capsules)
        capsule = with_summary(raw) if options.names else anonymous(raw)
        different = [
            str(number)
            for number, (cycle, expected) in enumerate(zip(raw.cycles, raw.expected, strict=True), 1)
            if expected_of(replay(cycle).evaluation) != expected
        ]
        content = pack(capsule)
    except (KeptFileError, CapsuleError) as error:
        return complain(str(error))
    for sentence in unread:
        complain(sentence)
    if different:
        complain(f"cycle {', '.join(different)} gives another result now than when it was recorded")
    path = Path(options.output or f"capsule-{options.id}.zip")
    try:
        write_new(path, content)
    except OSError as error:
        return complain(f"{path} cannot be written: {error.strerror or error}")
    print(capsule.summary)
    print(f"Written: {path}, {path.stat().st_size:,} bytes. Look at it, then send it.")
    return ExitStatus.INCOMPLETE if unread else ExitStatus.ANSWERED


def _recorded(context: Context, settings: Settings, incident_id: str) -> tuple[list[Capsule], list[str]]:
    """The recorded cycles of an incident, and why others cannot be used. Raises KeptFileError and CapsuleError."""
    incident = incident_named(context, settings, incident_id)
    state_path = context.state_path(settings, settings)
    assert state_path is not None
    files = recorded_files(state_path, incident.id)
    if not files:
        raise CapsuleError(
            f"no cycle of incident {incident.id} is in {folder_beside(state_path)}: it began with an older version, "
            "state.capsules is false, or state.capsules_limit has removed it"
        )
    capsules, unread = [], []
    for path in files:
        try:
            capsules.append(load(path))
        except CapsuleError as error:  # as after a power failure, or removed for a newer one
            unread.append(str(error))
    if not capsules:
        raise CapsuleError(unread[0])
    return capsules, unread
