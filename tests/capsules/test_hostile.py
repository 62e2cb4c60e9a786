"""A capsule from anybody: damaged, cut, enormous or made to harm, it is one sentence, and little memory."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.capsules.cycle import CapsuleError
from exporter.capsules.file import FILE_BYTES_MAX, Capsule, expected_of, pack, unpack
from exporter.capsules.replaying import replay
from exporter.capsules.sharing import anonymous, joined
from exporter.cli import main
from exporter.snapshot import STATE_TOPIC
from tests.capsules.recorded import recorded
from tests.kafka.fake_model import Model, Partition
from tests.kafka.scene import scene

MEMORY_MAX = 700_000_000
"""Most that a zip bomb may take: the limits of a member, and what one copy of it takes."""


@pytest.fixture(scope="module")
def content() -> bytes:
    return pack(recorded(scene(), cycles=2))


def rewritten(content: bytes, change: Callable[[dict[str, bytes]], object]) -> bytes:
    """The file with other members."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def with_index(**values: Any) -> Callable[[dict[str, bytes]], object]:
    def change(members: dict[str, bytes]) -> None:
        members["index.json"] = json.dumps({**json.loads(members["index.json"]), **values}).encode()

    return change


def with_cycle(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, bytes]], object]:
    def rewrite(members: dict[str, bytes]) -> None:
        cycle = json.loads(members["cycle-1.json"])
        change(cycle)
        members["cycle-1.json"] = json.dumps(cycle).encode()

    return rewrite


def use(content: bytes) -> None:
    """Everything that a command does with a capsule."""
    capsule = unpack(content)
    for cycle in capsule.cycles:
        expected_of(replay(cycle).evaluation)
    anonymous(capsule)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (with_index(format="another"), "not a capsule of this exporter"),
        (with_index(version=2), "version 2 of the format; this exporter knows 1"),
        (with_index(version=[[]]), "version"),
        (with_index(cycles=10**9), "1000000000 cycles"),
        (with_index(cycles=-1), "-1 cycles"),
        (with_index(cycles=3), "damaged"),
        (with_index(cycles="2"), "damaged"),
        (lambda members: members.update({"../../etc/passwd": b""}), "a member that no capsule has"),
        (lambda members: members.update({"/tmp/x": b""}), "a member that no capsule has"),
        (lambda members: members.pop("bytes.bin"), "damaged"),
        (lambda members: members.update({"index.json": b"{"}), "damaged"),
        (lambda members: members.update({"index.json": b"[" * 100_000}), "damaged"),
        (lambda members: members.update({"cycle-1.json": b"[" * 1_000_000}), "damaged"),
        (lambda members: members.update({"bytes.bin": b""}), "are not in it"),
        (with_cycle(lambda cycle: cycle.update(memory=None)), "damaged"),
        (with_cycle(lambda cycle: cycle.update(deadline_s="1")), "is not of the type float"),
        (with_cycle(lambda cycle: cycle["memory"].update(transactions={"__class__": "os.system"})), "damaged"),
        (with_cycle(lambda cycle: cycle["exchanges"][0].update(response=[0, 2**62])), "are not in it"),
        (with_cycle(lambda cycle: cycle["exchanges"][0].update(response=[-5, 3])), "are not in it"),
        (with_cycle(lambda cycle: cycle["moments"][0].update(mark="pickle")), "damaged"),
        (with_cycle(lambda cycle: cycle.update(moments=[])), "in the middle of a cycle"),
    ],
)
def test_what_no_exporter_writes_is_a_sentence(
    content: bytes, change: Callable[[dict[str, bytes]], object], sentence: str
) -> None:
    with pytest.raises(CapsuleError, match=sentence):
        use(rewritten(content, change))


def test_a_column_of_objects_is_refused(content: bytes) -> None:
    """NumPy would run code to read one."""

    def change(cycle: dict[str, Any]) -> None:
        cycle["memory"]["transactions"]["identity"]["partition"][0] = "|O8"

    with pytest.raises(CapsuleError, match="a column of"):
        unpack(rewritten(content, with_cycle(change)))


def test_pieces_that_overlap_do_not_multiply(content: bytes) -> None:
    """A million references to a hundred megabytes would be copied."""

    def change(cycle: dict[str, Any]) -> None:
        for start, exchange in enumerate(cycle["exchanges"]):
            exchange["response"] = [start, 5000]

    with pytest.raises(CapsuleError, match="overlap"):
        unpack(rewritten(content, with_cycle(change)))


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_a_sentence_or_a_capsule(content: bytes, seed: int) -> None:
    """Bytes are changed, inside of members too; never another exception."""
    chance = random.Random(seed)

    def damage(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(chance.choice((1, 3, 30))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.2 else changed)

    def inside(members: dict[str, bytes]) -> None:
        name = chance.choice(("bytes.bin", "bytes.bin", "cycle-1.json", "cycle-2.json", "expected-1.json"))
        members[name] = damage(members[name])

    try:
        use(damage(content) if seed % 3 == 0 else rewritten(content, inside))
    except CapsuleError as error:
        assert len(str(error)) < 1000  # noqa: PT017 - it may also be a capsule still


def test_a_name_that_the_archive_repeats_wrongly_is_not_repeated(content: bytes) -> None:
    """Python's sentence has all that it took for a name: here the rest of the file."""
    changed = bytearray(content)
    at = content.index(b"PK\3\4", content.index(b"index.json"))
    changed[at + 26 : at + 28] = b"\xff\x7f"  # the length of the name in a member's own header

    with pytest.raises(CapsuleError) as error:
        unpack(bytes(changed))
    assert len(str(error.value)) <= 500


@pytest.mark.parametrize("name", ["bytes.bin", "cycle-1.json", "SUMMARY.txt"])
def test_a_zip_bomb_takes_little_memory(content: bytes, name: str) -> None:
    """Two gigabytes of zeros in two megabytes; the announced size is not believed."""
    file = io.BytesIO(content)
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        for _ in range(500):
            member.write(b"\0" * 1_000_000)
    tracemalloc.start()
    with pytest.raises(CapsuleError, match="has more than"):
        unpack(file.getvalue())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < MEMORY_MAX


@pytest.mark.parametrize("kind", ["cut", "no zip", "large", "missing", "a folder"])
def test_the_command_ends_with_a_sentence(
    kind: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, nothing on standard output, no traceback."""
    path = tmp_path / "capsule.zip"
    if kind == "large":
        with path.open("wb") as file:
            file.truncate(FILE_BYTES_MAX + 1)
    elif kind == "a folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(content[:-100] if kind == "cut" else b"PK not")
    status = main(["replay", str(path)])
    printed = capsys.readouterr()

    assert status == 1
    assert printed.out == ""
    assert str(path) in printed.err.replace("\n", " ").replace("  ", " ") or "cannot be" in printed.err
    assert "Traceback" not in printed.err


def test_replay_prints_the_result_and_what_differs(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 0 for the recorded result, 4 for another one."""
    path, other = tmp_path / "capsule.zip", tmp_path / "other.zip"
    path.write_bytes(content)
    capsule: Capsule = unpack(content)
    other.write_bytes(
        rewritten(content, lambda members: members.update({"expected-2.json": capsule.expected[1] + b"\n!"}))
    )

    assert main(["replay", str(path)]) == 0
    assert capsys.readouterr().out.encode() == capsule.expected[1] + b"\n"
    assert main(["replay", str(path), "--cycle", "1"]) == 0
    assert capsys.readouterr().out.encode() == capsule.expected[0] + b"\n"
    assert main(["replay", str(path), "--cycle", "3"]) == 2
    capsys.readouterr()
    ended = joined([capsule, recorded(Model(topics={STATE_TOPIC: [Partition(1)], "orders": [Partition(1)]}), cycles=1)])
    path.write_bytes(pack(ended))
    assert main(["replay", str(path)]) == 0
    assert capsys.readouterr().out.encode() == capsule.expected[1] + b"\n", "the last one with a suspect"
    assert main(["replay", str(other), "--diff"]) == 4
    printed = capsys.readouterr()
    assert "-!" in printed.out
    assert "cycle 2: the result differs in 1 line (" in printed.err
    assert main(["replay", str(other), "--diff", "--cycle", "2"]) == 4
    assert capsys.readouterr().out == printed.out
    assert main(["replay", str(other), "--diff", "--cycle", "1"]) == 4
    assert capsys.readouterr().out == "The result of cycle 1 does not differ.\n"
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(other), "--diff", "--serve"])
    other.write_bytes(
        rewritten(content, lambda members: members.update({"expected-2.json": capsule.expected[1] + b"\n"}))
    )
    assert main(["replay", str(other)]) == 4, "every byte counts"
    other.write_bytes(rewritten(content, lambda members: members.update({"expected-2.json": b"\xff"})))
    assert main(["replay", str(other)]) == 4, "bytes that are no text are another result"
