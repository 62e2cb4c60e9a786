"""No name of the cluster is in a capsule with other names: neither plain nor encoded."""

from __future__ import annotations

import base64
import io
import re
import time
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from kafka.protocol.admin.acl import DescribeAclsResponse
from kafka.protocol.admin.cluster import DescribeLogDirsResponse
from kafka.protocol.admin.configs import DescribeConfigsResponse
from kafka.protocol.admin.groups import ListGroupsResponse
from kafka.protocol.consumer.group import OffsetFetchResponse
from kafka.protocol.metadata.metadata import MetadataResponse

from exporter.capsules.file import Capsule, pack
from exporter.capsules.names import Names
from exporter.capsules.sharing import anonymous
from exporter.kafka.messages.recorded import bytes_of, renamed, without_records
from exporter.kafka.state_partitions import java_hash_partition
from exporter.patterns import prefix_of
from exporter.snapshot import STATE_TOPIC
from tests.capsules.recorded import recorded
from tests.kafka.fake_model import Model, Partition, Producer, Transaction
from tests.kafka.log_batch import batch, log_batch

PLANTED = tuple(f"{word}-{number:03}" for number in range(100) for word in ("geheim-topic", "secret.id:x"))
"""Two hundred names, of topics and of transactional ids."""


def planted() -> Model:
    """A hang, or a live transaction, on a topic of each name."""
    now_ms = time.time_ns() // 1_000_000
    topics, ids = PLANTED[::2], PLANTED[1::2]
    hangs = {topic: [Partition(1 + i % 2, producers=[Producer(1000 + i, 5)])] for i, topic in enumerate(topics)}
    return Model(
        topics={STATE_TOPIC: [Partition(leader=leader) for leader in (1, 2) * 25], **hangs},
        transactions={
            name: Transaction(
                1000 + i,
                "Ongoing" if i % 3 else "Empty",
                start_ms=now_ms if i % 3 else -1,
                timeout_ms=600_000,
                partitions={(topics[i], 0)} if i % 3 else set(),
            )
            for i, name in enumerate(ids)
        },
    )


def members(capsule: Capsule) -> bytes:
    """All contents of the file, unpacked."""
    with zipfile.ZipFile(io.BytesIO(pack(capsule))) as archive:
        return b"\n".join(archive.read(name) for name in archive.namelist())


def forms(name: str) -> Iterator[bytes]:
    """The name, and how it looks in other codings, wherever it begins in them."""
    raw = name.encode()
    yield raw
    yield quote(name, safe="").encode()
    yield raw.hex().encode()
    yield raw[::-1]
    yield name.encode("utf-16-be")
    for shift in range(3) if len(raw) > 8 else ():  # less of it may be there by chance
        coded = base64.b64encode(b"\0" * shift + raw)
        yield coded[4 if shift else 0 : len(coded) - 4]


def found_in(content: bytes, names: tuple[str, ...]) -> set[str]:
    """Also where other characters split it, as the quotes and commas of a list would."""
    lower = content.lower()
    squeezed = re.sub(rb"[^A-Za-z0-9:._-]+", b"", content)
    return {
        name
        for name in names
        if any(form in content or form.lower() in lower for form in forms(name)) or name.encode() in squeezed
    }


def test_none_of_two_hundred_planted_names_is_in_it() -> None:
    """The scanner finds each of them in the capsule that keeps the names."""
    capsule = recorded(planted(), cycles=2)
    other = anonymous(capsule)

    assert found_in(members(capsule), PLANTED) == set(PLANTED)
    assert found_in(members(other), (*PLANTED, "geheim", "secret.id", "127.0.0.1", "fake-cluster")) == set()
    assert "all cycles have the same verdicts" in other.summary


def test_a_replacement_hashes_to_the_partitions_of_its_name() -> None:
    """A name keeps its partition of the transaction log and of consumers' offsets; names of a kind stay in their order."""
    names = Names()
    ids = [f"orders-{number}" for number in range(300)]
    for name in ids:
        names._note(name, "id")
    names._note("billing", "group")
    names.choose(50, 25)
    replaced = [names.rename(name, "id") for name in ids]

    assert len(set(replaced)) == 300
    for name, other in [*zip(ids, replaced, strict=True), ("billing", names.rename("billing", "group"))]:
        assert [java_hash_partition(other, count) for count in (50, 25)] == [
            java_hash_partition(name, count) for count in (50, 25)
        ]
    assert sorted(replaced) == [names.rename(name, "id") for name in sorted(ids)]
    assert {prefix_of(other) for other in replaced} == {names.rename("orders", "prefix")}


def test_a_name_that_is_split_is_found() -> None:
    """The scanner is not weaker than somebody who looks at the file."""
    assert found_in(b'["geheim-to", "pic-003"]\n', PLANTED) == {"geheim-topic-003"}


@pytest.mark.parametrize(("name", "beginning"), [("a-1", "a-0"), ("é-1", "app-0"), ("支-1", "app-0")])
def test_an_id_may_begin_with_one_letter_and_a_hyphen(name: str, beginning: str) -> None:
    """One letter says nothing and has no replacement, with which its id could begin."""
    names = Names()
    names._note(name, "id")
    names.choose(5, 5)

    replacement = names.rename(name, "id")
    assert replacement.startswith(beginning)
    assert java_hash_partition(replacement, 5) == java_hash_partition(name, 5)


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (
            DescribeAclsResponse(
                version=1,
                throttle_time_ms=0,
                error_code=0,
                error_message="no, Alice",
                resources=[
                    DescribeAclsResponse.DescribeAclsResource(
                        version=1,
                        resource_type=5,
                        resource_name="payments-",
                        pattern_type=4,
                        acls=[
                            DescribeAclsResponse.DescribeAclsResource.AclDescription(
                                version=1, principal="User:Alice", host="10.1.2.3", operation=8, permission_type=3
                            )
                        ],
                    )
                ],
            ),
            ("payments-", "Alice", "10.1.2.3"),
        ),
        (
            DescribeAclsResponse(
                version=1,
                resources=[
                    DescribeAclsResponse.DescribeAclsResource(
                        version=1, resource_type=5, resource_name=name, pattern_type=pattern, acls=[]
                    )
                    for name, pattern in (("4915112345678", 3), ("49301234", 4), ("connect", 4))
                ],
            ),
            ("4915112345678", "49301234", "connect"),
        ),
        (
            ListGroupsResponse(
                version=3,
                throttle_time_ms=0,
                error_code=0,
                groups=[ListGroupsResponse.ListedGroup(version=3, group_id="invoices", protocol_type="their-own")],
            ),
            ("invoices", "their-own"),
        ),
        (
            DescribeLogDirsResponse(
                version=2,
                throttle_time_ms=0,
                results=[
                    DescribeLogDirsResponse.DescribeLogDirsResult(
                        version=2, error_code=0, log_dir="/mnt/bank-7/kafka", topics=[]
                    )
                ],
            ),
            ("bank-7",),
        ),
    ],
    ids=["acls", "acls of numbers and words", "groups", "log directories"],
)
def test_messages_lose_their_names(message: Any, names: tuple[str, ...]) -> None:
    """Users, hosts, groups, paths, and texts of a broker; what nobody thought of is a name too."""
    body = bytes_of(message)
    other = renamed(message.API_KEY, message.version, body, lambda _, kind: f"<{kind}>", is_request=False)

    assert other is not None
    assert found_in(body, names) == set(names)
    assert found_in(other, names) == set()
    assert renamed(message.API_KEY, message.version, body, lambda text, _: text, is_request=False) is not None


def test_what_names_nothing_of_the_cluster_stays() -> None:
    """A replay requests the settings of the same broker, and finds the same values and types of groups."""
    config = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
    configs = DescribeConfigsResponse(
        version=1,
        results=[
            DescribeConfigsResponse.DescribeConfigsResult(
                version=1,
                resource_type=4,
                resource_name="17",
                configs=[
                    config(version=1, name="transaction.max.timeout.ms", value="900000", config_source=4),
                    config(version=1, name="log.cleanup.policy", value="compact", config_source=4),
                ],
            )
        ],
    )
    groups = ListGroupsResponse(
        version=3, groups=[ListGroupsResponse.ListedGroup(version=3, group_id="g", protocol_type="consumer")]
    )
    for message, texts in ((configs, (b"17", b"900000", b"compact")), (groups, (b"consumer",))):
        other = renamed(message.API_KEY, message.version, bytes_of(message), lambda *_: "?", is_request=False)
        assert all(text in (other or b"") for text in texts)


def test_metadata_of_offsets_is_left_out() -> None:
    """An application writes it."""
    partition = OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition
    message = OffsetFetchResponse(
        version=5,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                version=5,
                name="orders",
                partitions=[
                    partition(
                        version=5,
                        partition_index=0,
                        committed_offset=7,
                        committed_leader_epoch=1,
                        metadata="by Bob",
                        error_code=0,
                    )
                ],
            )
        ],
        error_code=0,
    )
    other = renamed(9, 5, bytes_of(message), lambda text, _: text, is_request=False)

    assert b"orders" in (other or b"")
    assert b"Bob" not in (other or b"")


def test_the_metadata_of_a_cluster_stay_the_same_without_a_replacement() -> None:
    """Decoding and encoding changes no byte."""
    message = MetadataResponse(version=11, throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=[])
    assert renamed(3, 11, bytes_of(message), lambda text, _: text, is_request=False) == bytes_of(message)


def test_of_a_log_only_headers_and_end_markers_stay() -> None:
    """The piece is as long as before, so nothing else changes for its reader."""
    data = log_batch([(1, b"the key", b"the value", [("header", b"its value")])], producer=(7, 3))
    marker = batch(1, control=1)
    piece = data + marker + data[:40]
    cut = without_records(piece)

    assert len(cut) == len(piece)
    assert cut[:61] == piece[:61]
    assert not any(cut[61 : len(data)])
    assert cut[len(data) : len(data) + len(marker)] == marker
    assert not any(cut[len(data) + len(marker) + 17 :])


def test_a_log_that_cannot_be_read_is_blank() -> None:
    """Bytes that are no batches may be anything."""
    assert not any(without_records(b"\xff" * 16 + b"\x09" + b"secret" * 20)[17:])
