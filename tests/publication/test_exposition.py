"""The text of `/metrics`: whole texts, both formats read back, and the large family."""

from __future__ import annotations

import gzip
import math
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import Metric as ForeignMetric
from prometheus_client import ProcessCollector
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.evaluation.verdicts import Evaluation
from exporter.publication import zero_series
from exporter.publication.exposition import OPENMETRICS, TEXT, Exposition, Renderer
from exporter.publication.metrics.model import STATUS, Distribution, Metric, PartitionSeries, Sample
from exporter.publication.publication import Publication, PublishOptions
from exporter.publication.text import number
from exporter.publication.zero_series import ZeroSeriesCache
from exporter.snapshot import NO_PRODUCER_ID, PartitionResult
from tests.publication.builders import (
    TAKEN_AT_MS,
    Partition,
    evaluation,
    evaluation_of,
    many_partitions,
    published,
    status,
    transaction,
)
from tests.publication.scenarios import EXPECTED, SCENARIOS, render, stale

Series = tuple[str, frozenset[tuple[str, str]], float]
NOTHING = stale()

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())


@every_scenario
def test_each_situation_gives_exactly_its_expected_text(scenario: Callable[[], Publication]) -> None:
    """The whole text of every situation is the one that was read and committed."""
    expected = (EXPECTED / f"{scenario.__name__}.txt").read_text()

    assert render(scenario()).text.body.decode() == expected, "if this is intended: run `make generate`"


@every_scenario
def test_both_formats_say_the_same(scenario: Callable[[], Publication]) -> None:
    """OpenMetrics has the very series of the text format, ends in # EOF, and both come back out of their gzip."""
    exposition = render(scenario())
    assert _series(parse_openmetrics(exposition.openmetrics.body.decode())) == _series(
        parse_text(exposition.text.body.decode())
    )
    assert exposition.openmetrics.body.endswith(b"# EOF\n")
    _assert_gzip_agrees(exposition)


@pytest.mark.programs
@every_scenario
def test_promtool_finds_nothing_to_mend(scenario: Callable[[], Publication]) -> None:
    """Names, types and help are as Prometheus' own linter requires; `process_*` are with it."""
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool is missing: on Debian install the package prometheus."
    body = Renderer().render(scenario()).text.body
    checked = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_partition_that_was_not_read_has_no_series() -> None:
    """A 0 says that the leader answered and nothing is open; of an unread partition nothing is said."""
    rows = [Partition(partition=0), Partition(partition=1, unread="no_leader")]
    rows.append(Partition(partition=2, unread="TOPIC_AUTHORIZATION_FAILED", answer=PartitionResult.UNAUTHORIZED))
    durations = _of(render(_publication(evaluation(rows))), "kafka_partition_max_active_transaction_duration_seconds")
    assert durations == {(("partition", "0"), ("topic", "orders")): 0}


def test_a_partition_behind_which_nothing_waits_has_a_lag_of_0() -> None:
    """A 0 was measured; unknown has no series."""
    rows = [transaction(partition=0, last_stable_offset_lag=0), transaction(partition=1, last_stable_offset_lag=None)]
    text = render(published(evaluation([Partition(partition=0), Partition(partition=1)], rows))).text.body.decode()
    lags = [line for line in text.splitlines() if line.startswith("kafka_partition_last_stable_offset_lag{")]

    assert lags == ['kafka_partition_last_stable_offset_lag{topic="orders",partition="0"} 0']


def test_an_idle_time_that_nobody_knows_has_no_series() -> None:
    """Where offsets alone are known there is no producer, and so no last write: a 0 would say that it writes now."""
    unknown = transaction(partition=0, producer_id=NO_PRODUCER_ID, last_timestamp_ms=-1, idle_ms=None)
    partitions = [Partition(partition=0, answer=PartitionResult.BY_OFFSETS), Partition(partition=1)]
    exposition = render(published(evaluation(partitions, [unknown, transaction(partition=1)])))

    place = (("partition", "1"), ("topic", "orders"))
    assert _of(exposition, "kafka_partition_max_transaction_idle_seconds") == {place: 30.5}
    assert len(_of(exposition, "kafka_partition_open_transactions")) == 2


def test_partition_series_can_be_limited_to_open_ones() -> None:
    """`open` gives no series to idle partitions, and that is as asked for, so no limit is reported."""
    exposition = render(_publication(evaluation(), PublishOptions(partition_series="open")))
    assert _of(exposition, "kafka_partition_max_active_transaction_duration_seconds") == {}
    assert _of(exposition, "kafka_transaction_exporter_partition_series_limited") == {(): 0}


def test_nothing_of_the_cluster_outlives_its_snapshot() -> None:
    """Without an evaluation every series is one of the exporter or of its process."""
    with_rows = {name for name, _, _ in _series(parse_text(render(SCENARIOS["three_hangs"]()).text.body.decode()))}
    without = {name for name, _, _ in _series(parse_text(render(stale()).text.body.decode()))}
    assert without < with_rows
    assert all(name.startswith("kafka_transaction_exporter_") for name in without)


def parse_openmetrics(text: str) -> Iterable[ForeignMetric]:
    """Typed: the library leaves its own function without annotations."""
    families: Iterable[ForeignMetric] = openmetrics_parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return families


label_values = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.floats() | st.integers(-(2**63), 2**63) | st.booleans()


@given(st.dictionaries(st.tuples(label_values, label_values), numbers, min_size=1))
def test_any_label_and_any_number_is_read_back(values: dict[tuple[str, str], float]) -> None:
    """Both parsers read back exactly the names that a broker sends and the values."""
    samples = [Sample(labels, value) for labels, value in values.items()]
    metric = Metric(
        name="thing", help="A thing.", kind="gauge", labels=("one", "two"), of=STATUS, values=lambda _: samples
    )
    exposition = Renderer([metric], process=ProcessCollector(proc="/nonexistent", registry=None)).render(NOTHING)
    wanted = {frozenset(zip(("one", "two"), labels, strict=True)): float(value) for labels, value in values.items()}
    for families in (
        parse_text(exposition.text.body.decode()),
        parse_openmetrics(exposition.openmetrics.body.decode()),
    ):
        found = {labels: value for _, labels, value in _series_in_order(families)}
        assert found.keys() == wanted.keys()
        assert all(_same(found[labels], value) for labels, value in wanted.items())


@given(st.lists(st.integers(0, 2**40), min_size=4, max_size=4), st.floats(0, 1e12))
def test_histograms_are_cumulative_and_end_in_infinity(counts: list[int], total: float) -> None:
    """Buckets add up, the last is the count, and both parsers accept it as a histogram."""
    distribution = Distribution(("x",), (0.5, 1, 2.5), tuple(counts), total)
    metric = Metric(
        name="t", help="A time.", kind="histogram", labels=("api",), of=STATUS, values=lambda _: [distribution]
    )
    exposition = Renderer([metric], process=ProcessCollector(proc="/nonexistent", registry=None)).render(NOTHING)
    for families in (
        parse_text(exposition.text.body.decode()),
        parse_openmetrics(exposition.openmetrics.body.decode()),
    ):
        (family,) = families
        assert family.type == "histogram"
        by_bound = {sample.labels.get("le", sample.name): sample.value for sample in family.samples}
        sums = np.cumsum(counts).tolist()
        assert by_bound == {
            **dict(zip(("0.5", "1.0", "2.5", "+Inf"), sums, strict=True)),
            "t_sum": total,
            "t_count": sums[-1],
        }


def test_a_name_that_is_not_text_does_not_cost_the_response() -> None:
    """A lone surrogate cannot be encoded: it becomes a question mark and all other series stay."""
    exposition = render(_publication(evaluation([Partition(topic="a\udc80b"), Partition(topic="fine")])))
    assert b'topic="a?b"' in exposition.text.body
    assert b'topic="fine"' in exposition.text.body


@settings(max_examples=30)
@given(
    st.dictionaries(st.integers(0, 599), st.integers(1, 2**53), max_size=50),
    st.sets(st.integers(0, 599), max_size=50),
)
def test_many_partitions_are_exact(durations_ms: dict[int, int], unread: set[int]) -> None:
    """With cached lines as without: every read partition has its duration, no unread one has any."""
    publication = _large(durations_ms, unread)
    found = _of(_RENDERER.render(publication), "kafka_partition_max_active_transaction_duration_seconds")
    wanted = {
        (("partition", str(row % 6)), ("topic", f"team-{row // 6:05}.some-topic")): durations_ms.get(row, 0) / 1000
        for row in range(600)
        if row not in unread
    }
    assert found == wanted


@given(
    st.dictionaries(st.integers(0, 40), st.integers(1, 10**6), max_size=20),
    st.sets(st.integers(0, 40), max_size=15),
    st.integers(1, 50),
)
def test_patched_blocks_say_what_newly_rendered_lines_would(
    durations_ms: dict[int, int], unread: set[int], block_rows: int
) -> None:
    """Wherever blocks end, whatever is open or unread in them, twice in a row: a line for each read partition, in order."""
    partitions = many_partitions(7, 6)
    rows = np.array([row for row in range(42) if row not in unread], dtype=np.intp)
    values = np.array([durations_ms.get(row, 0) for row in rows.tolist()], dtype=np.int64)
    series = PartitionSeries(partitions=partitions, rows=rows, values=values, divisor=1000)
    expected = "".join(
        f'm{{topic="{topic}",partition="{index}"}} {number(int(value) / 1000)}\n'
        for (topic, index), value in zip(map(partitions.name, rows.tolist()), values, strict=True)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zero_series, "BLOCK_ROWS", block_rows)
        lines = ZeroSeriesCache()
        for _ in range(2):
            assert (
                b"".join(line.data for line in lines.patched("m", ("topic", "partition"), series)).decode() == expected
            )


def test_only_blocks_with_something_open_are_rendered_again() -> None:
    """Of 40 blocks of partitions the two with an open transaction are new in the next publication, plain and deflated."""
    renderer = Renderer(process=ProcessCollector(proc="/nonexistent", registry=None))
    partitions = many_partitions(40, zero_series.BLOCK_ROWS)
    before, after = (
        renderer.render(_publication(evaluation_of(partitions, {17: duration_ms, 30_000: duration_ms})))
        for duration_ms in (1000, 2000)
    )
    for old, new in ((before.text, after.text), (before.text_gzip, after.text_gzip)):
        kept = {id(chunk) for chunk in old.chunks if len(chunk) > 1000}
        assert len([chunk for chunk in new.chunks if id(chunk) in kept]) == 38
    _assert_gzip_agrees(after)


_RENDERER = Renderer(process=ProcessCollector(proc="/nonexistent", registry=None))


def test_cached_lines_follow_a_change_of_partitions() -> None:
    """A topic that is renamed, added or gone between two publications is so in the second one."""
    renderer = Renderer(process=ProcessCollector(proc="/nonexistent", registry=None))
    for names in ("a0", "b0", "b1", "a0 a1 b2", "a0 b1 b2", "a7 orders7"):
        rows = [Partition(topic=name[:-1], partition=int(name[-1])) for name in names.split()]
        found = _of(
            renderer.render(_publication(evaluation(rows))), "kafka_partition_max_active_transaction_duration_seconds"
        )
        assert found == {(("partition", str(row.partition)), ("topic", row.topic)): 0 for row in rows}


def test_the_large_family_is_one_object_in_both_formats() -> None:
    """A large family is held and compressed once, and the put-together gzip is a valid one."""
    exposition = Renderer().render(_publication(evaluation_of(many_partitions(500, 6), {17: 1234})))
    text = max(exposition.text.chunks, key=len)
    assert any(chunk is text for chunk in exposition.openmetrics.chunks)
    compressed = max(exposition.text_gzip.chunks, key=len)
    assert any(chunk is compressed for chunk in exposition.openmetrics_gzip.chunks)
    _assert_gzip_agrees(exposition)


def test_content_types_name_format_and_version() -> None:
    """Prometheus chooses its parser by these."""
    exposition = render(stale())
    assert (exposition.text.content_type, exposition.openmetrics.content_type) == (TEXT, OPENMETRICS)
    assert exposition.text_gzip.content_encoding == exposition.openmetrics_gzip.content_encoding == "gzip"
    assert exposition.text.content_encoding is exposition.openmetrics.content_encoding is None


def test_timestamps_keep_their_milliseconds() -> None:
    """Instants are seconds with nothing lost."""
    publication = published(None, status=status(snapshot_taken_at_ms=TAKEN_AT_MS + 1))
    assert _of(render(publication), "kafka_transaction_exporter_snapshot_timestamp_seconds") == {(): 1_800_000_000.001}


def _publication(evaluated: Evaluation, options: PublishOptions | None = None) -> Publication:
    return published(evaluated, options=options or PublishOptions())


def _large(durations_ms: dict[int, int], unread: set[int]) -> Publication:
    partitions = many_partitions(100, 6)
    answer = partitions.answer.copy()
    answer[list(unread)] = PartitionResult.UNAVAILABLE
    return _publication(evaluation_of(replace(partitions, answer=answer), durations_ms))


def _assert_gzip_agrees(exposition: Exposition) -> None:
    assert gzip.decompress(exposition.text_gzip.body) == exposition.text.body
    assert gzip.decompress(exposition.openmetrics_gzip.body) == exposition.openmetrics.body


def _series_in_order(families: Iterable[ForeignMetric]) -> Iterator[Series]:
    for family in families:
        for sample in family.samples:
            yield sample.name, frozenset(sample.labels.items()), float(sample.value)  # one parser keeps integers


def _series(families: Iterable[ForeignMetric]) -> list[Series]:
    return sorted(_series_in_order(families), key=lambda series: (series[0], sorted(series[1])))


def _of(exposition: Exposition, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    series = _series_in_order(parse_text(exposition.text.body.decode()))
    return {tuple(sorted(labels)): value for found, labels, value in series if found == name}


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def test_the_address_of_the_page_is_a_series_only_where_it_is_set() -> None:
    """Alerts link to it."""
    name = "kafka_transaction_exporter_page_info"
    text = b"".join(Renderer().render(published(None)).text.chunks).decode()
    assert f"\n{name}{{" not in text
    options = PublishOptions(external_url="https://ktx.example.org")
    text = b"".join(Renderer().render(replace(published(None), options=options)).text.chunks).decode()
    assert f'\n{name}{{url="https://ktx.example.org"}} 1' in text
    of_fleet = replace(published(None), options=options, cluster="a b")
    text = b"".join(Renderer().render(of_fleet).text.chunks).decode()
    assert f'\n{name}{{cluster="a b",url="https://ktx.example.org/clusters/a%20b"}} 1' in text
