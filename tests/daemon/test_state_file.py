"""First-seen times on disk: what is written is read back, and useful data is never lost."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.daemon import state_file
from exporter.daemon.cluster_state import ClusterState
from exporter.daemon.kept_file import KeptFileDamagedError, KeptFileError, recall, set_aside
from exporter.daemon.state_file import SavedState
from exporter.evaluation.memory import (
    GroupKey,
    LastReading,
    Memory,
    RememberedBlock,
    RememberedTransaction,
    RememberedTransactions,
)
from exporter.evaluation.verdicts import StartSource
from exporter.snapshot import ClusterIdentity, CompletingId, RememberedBytes, RememberedCompletion, TransactionKey
from exporter.transaction_log.report import LogPosition

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(min_value=-1, max_value=2**63 - 1)
INSTANTS = st.none() | st.integers(min_value=0, max_value=2**63 - 1)
MEMORIES = st.builds(
    lambda cluster_id, transactions, blocked, completing, held: Memory(
        cluster_id=cluster_id,
        transactions=RememberedTransactions.of(transactions),
        blocked=MappingProxyType(blocked),
        completing=MappingProxyType(completing),
        held=MappingProxyType(held),
    ),
    TEXTS,
    st.dictionaries(
        st.builds(TransactionKey, TEXTS, st.integers(-1, 2**31 - 1), INTEGERS, INTEGERS),
        st.builds(
            RememberedTransaction,
            first_seen_ms=INTEGERS,
            last_seen_ms=INTEGERS,
            producer_epoch=INTEGERS,
            coordinator_start_ms=INSTANTS,
            completing_since_ms=INSTANTS,
            start_ms=INSTANTS,
            start_source=st.sampled_from([None, *StartSource]),
            not_open_at_ms=INSTANTS,
            clock_offset_ms=INTEGERS,
        ),
        max_size=5,
    ),
    st.dictionaries(
        st.builds(GroupKey, *[TEXTS] * 2, INTEGERS, TEXTS), st.builds(RememberedBlock, INTEGERS, INTEGERS), max_size=5
    ),
    st.dictionaries(
        st.builds(CompletingId, TEXTS, INTEGERS),
        st.builds(RememberedCompletion, start_ms=INTEGERS, since_ms=INTEGERS),
        max_size=5,
    ),
    st.dictionaries(
        st.builds(TransactionKey, TEXTS, INTEGERS, INTEGERS, INTEGERS, TEXTS),
        st.builds(RememberedBytes, **{each.name: INTEGERS for each in fields(RememberedBytes)}),
        max_size=5,
    ),
)
POSITIONS = st.builds(
    lambda cluster_id, offsets: LogPosition(cluster_id=cluster_id, offsets=MappingProxyType(offsets)),
    TEXTS,
    st.dictionaries(INTEGERS, INTEGERS, max_size=5),
)
SOME = SavedState(
    Memory(
        cluster_id="c",
        transactions=RememberedTransactions.of(
            {TransactionKey("t", 0, 7, 9): RememberedTransaction(first_seen_ms=1, last_seen_ms=2, producer_epoch=3)}
        ),
    ),
    LogPosition(cluster_id="c", offsets=MappingProxyType({3: 17})),
    ClusterIdentity(cluster_id="c"),
)


@given(MEMORIES, POSITIONS, st.dictionaries(TEXTS, TEXTS, max_size=5), TEXTS)
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory,
    memory: Memory,
    log_position: LogPosition,
    topic_ids: dict[str, str],
    bootstrap: str,
) -> None:
    path = tmp_path_factory.mktemp("state") / "state.json"
    cluster = ClusterIdentity(cluster_id=memory.cluster_id, topic_ids=MappingProxyType(topic_ids))
    reading = LastReading(
        at_ms=9,
        topics=tuple(topic_ids),
        topic_ids=tuple(topic_ids.values()),
        partitions=tuple(range(len(topic_ids))),
        unread=frozenset((topic, 0) for topic in topic_ids),
    )
    memory = replace(memory, last_reading=reading)

    state_file.save(path, SavedState(memory, log_position, cluster, bootstrap))

    assert state_file.load(path) == SavedState(memory, log_position, cluster, bootstrap)


def test_a_file_of_a_version_that_read_no_log_is_taken(tmp_path: Path) -> None:
    """Its first-seen times count; where the log was read up to, it does not say."""
    path = tmp_path / "state.json"
    state_file.save(path, SOME)
    document = json.loads(path.read_text())
    del document["transaction_log"], document["topics"], document["blocked"], document["blocked_at"]
    del document["topic_ids"], document["bootstrap"]
    path.write_text(json.dumps(document))

    assert state_file.load(path) == SavedState(SOME.memory, cluster=SOME.cluster)


def test_no_file_is_an_empty_memory(tmp_path: Path) -> None:
    """The first run on a machine starts with nothing and no complaint."""
    assert state_file.load(tmp_path / "none.json") == SavedState()


def test_saving_makes_the_folder_and_leaves_no_other_file(tmp_path: Path) -> None:
    """A folder that is missing is made; of the replaced file nothing is left over."""
    path = tmp_path / "deep" / "er" / "state.json"

    state_file.save(path, SOME)
    state_file.save(path, SOME)

    assert [p.name for p in path.parent.iterdir()] == ["state.json"]


def document(**changed: object) -> bytes:
    """A state file without transactions, but for these keys."""
    whole = {"format": state_file.FORMAT, "version": 1, "cluster_id": "", "transactions": []}
    return json.dumps({**whole, **changed}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": "something else", "version": 1}',
        document(version=2),
        document(cluster_id=5),
        document(transactions=[["t", 1]]),
        document(topics="t"),
        document(blocked=[["g", "t", 0, "1"]]),
        document(blocked=[["g", "t", 0, 1]], blocked_at=["1"]),
        document(blocked=[["g", "t", 0, 1]], blocked_at=[]),
        document(held=[["t", 0, 7, 9, "", 1, 2, 3, 4, "5"]]),
        document(transactions=[["t", 1, 2, 3, 4, 5, 6, 7, "8"]]),
    ],
)
def test_a_damaged_or_foreign_file_is_reported_and_kept(tmp_path: Path, content: bytes) -> None:
    """Loading any other content gives one sentence and keeps the file; set aside, it keeps its content."""
    path = tmp_path / "state.json"
    path.write_bytes(content)

    with pytest.raises(KeptFileDamagedError, match="is not a state file of this exporter"):
        state_file.load(path)

    assert set_aside(path).read_bytes() == content
    assert not path.exists()


def test_two_exporters_with_one_file_say_so_and_both_keep_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each would undo what the other has saved; it is said once, and by nobody who is alone."""
    path = tmp_path / "state.json"
    for _ in range(2):
        ClusterState(path, "a:1").keep("a:1")
    alone, other = ClusterState(path, "a:1"), ClusterState(path, "a:1")
    alone.keep("a:1")
    alone.keep("a:1")
    assert not caplog.messages
    for _ in range(2):
        other.keep("a:1")
        alone.keep("a:1")

    assert [message.partition(",")[0] for message in caplog.messages] == [
        f"another process has written {path} as well" for _ in (alone, other)
    ]
    assert all("give each its own state.file" in message for message in caplog.messages)
    assert state_file.load(path).bootstrap == "a:1"


def test_setting_aside_overwrites_nothing(tmp_path: Path) -> None:
    """A second damaged file does not replace the first."""
    path = tmp_path / "state.json"
    for content in ("first", "second"):
        path.write_text(content)
        set_aside(path)

    assert sorted(p.read_text() for p in tmp_path.iterdir()) == ["first", "second"]


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """A folder that is a file gives one sentence that names the state file."""
    (tmp_path / "file").write_text("x")

    with pytest.raises(KeptFileError, match=r"state\.json cannot be written"):
        state_file.save(tmp_path / "file" / "state.json", SOME)


def test_what_no_run_would_load_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    state_file.save(path, SOME)
    monkeypatch.setattr(state_file, "BYTES_MAX", 100)
    with pytest.raises(KeptFileError, match="would be larger than 0 MB"):
        state_file.save(path, replace(SOME, bootstrap="a:1"))
    monkeypatch.undo()
    assert state_file.load(path) == SOME


def test_unfinished_files_of_killed_processes_are_removed_at_the_start(tmp_path: Path) -> None:
    """One that may still be written stays, and so do other files."""
    path = tmp_path / "state.json"
    state_file.save(path, SOME)
    now_s = path.stat().st_mtime
    for name, age_s in (("state.json.11.tmp", 3600), ("state.json.12.tmp", 0), ("other.json.11.tmp", 3600)):
        (tmp_path / name).write_text("half")
        os.utime(tmp_path / name, (now_s - age_s, now_s - age_s))
    assert recall(path, state_file.load, SavedState(), contents="first-seen times") == (SOME, path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.json.11.tmp", "state.json", "state.json.12.tmp"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up in the middle costs the new state, never the old, and leaves no half file."""
    path = tmp_path / "state.json"
    state_file.save(path, SOME)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeptFileError, match="No space left"):
        state_file.save(path, replace(SOME, bootstrap="a:1"))

    assert state_file.load(path) == SOME
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]
