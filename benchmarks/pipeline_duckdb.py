"""Makes the same transactions by DuckDB, the peer of the pipeline's benchmark: closings and verdicts, as Parquet.

It makes whole tables at once, and reads a history of which every cycle read every partition, as the generated one is; late
files, gaps and open transactions of earlier runs are not its concern. Two runs are equal when the sums of a hash of every
value of every row are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import duckdb

from exporter.history.schema import CYCLES, OBSERVATIONS, VERSION
from exporter.pipeline.partition_transactions import EXACT_SOURCES, START_SOURCES
from exporter.pipeline.schemas import GREATEST_OF_PARTITION, GREATEST_OF_TRANSACTION

ROWS_OF_A_PASS: Final = 20_000_000
"""DuckDB keeps lists in memory while it groups: with 100 million rows at once it did not end within 15 minutes."""
SPILLED: Final = Path("build/benchmarks/duckdb")
"""Where DuckDB keeps what does not fit into memory; its default is a folder in the tree."""
_KEY: Final = "cluster_id, topic, partition, producer_id, start_offset"
_GREATEST_OF_PARTITION, _GREATEST_OF_TRANSACTION = (
    ", ".join(f"max({name}) as {name}" for name in names) for names in (GREATEST_OF_PARTITION, GREATEST_OF_TRANSACTION)
)
_TRANSACTIONS: Final = f"""
with seen as (
  select {_KEY}, verdict, max(producer_epoch) as producer_epoch, max(transactional_id) as transactional_id,
    min(taken_at) as first_seen, max(taken_at) as last_seen, min(started_at) as started_at,
    min(started_at) filter (list_contains($exact, start_source)) as exact_started_at,
    max(list_position($sources, start_source) - 1) as start_rank, {_GREATEST_OF_PARTITION},
    list(groups) filter (len(groups) > 0) as groups
  from read_parquet($observations, hive_partitioning = true) where producer_id % $passes = $number group by all),
merged as (
  select {_KEY}, max(producer_epoch) as producer_epoch, max(transactional_id) as transactional_id,
    min(first_seen) as first_seen, max(last_seen) as last_seen, min(started_at) as started_at,
    min(exact_started_at) as exact_started_at, max(start_rank) as start_rank,
    {_GREATEST_OF_PARTITION},
    list(struct_pack(first_seen, verdict) order by first_seen) as verdicts,
    coalesce(list_sort(list_distinct(flatten(flatten(list(groups))))), []) as groups
  from seen group by all),
instants as (select distinct cluster_id, taken_at from read_parquet($cycles, hive_partitioning = true)),
following as (
  select cluster_id, taken_at as last_seen, lead(taken_at) over (partition by cluster_id order by taken_at) as closed_at
  from instants),
partition_transactions as (
  select merged.*, closed_at, false as is_lost from merged left join following using (cluster_id, last_seen)),
transactions as (
  select cluster_id, producer_id, producer_epoch, max(transactional_id) as transactional_id,
    coalesce(exact_started_at, min(started_at)) as started_at, $sources[max(start_rank) + 1] as start_source,
    min(first_seen) as first_seen, max(last_seen) as last_seen, {_GREATEST_OF_TRANSACTION},
    list_sort(list(struct_pack(topic, partition, start_offset, first_seen, last_seen, started_at, exact_started_at,
      start_rank, {", ".join(GREATEST_OF_PARTITION)}, verdicts, groups, closed_at, is_lost)))
      as partitions,
    case when bool_or(closed_at is null) then 'still_open' else 'closed' end as "end",
    case when bool_or(closed_at is null) then null else max(closed_at) end as closed_at
  from partition_transactions
  group by cluster_id, producer_id, producer_epoch, exact_started_at,
    case when exact_started_at is null then (topic, partition, start_offset) end)
select *, list_transform(list_sort(flatten([it.verdicts for it in partitions])), lambda it: it.verdict) as verdicts,
  strftime(closed_at, '%Y-%m-%d') as date, strftime(closed_at, '%H') as hour
from transactions
"""
_COLUMNS: Final = (
    "cluster_id, producer_id, producer_epoch, transactional_id, epoch_ms(started_at), start_source, epoch_ms(first_seen), "
    f'epoch_ms(last_seen), {", ".join(GREATEST_OF_TRANSACTION)}, list_distinct(verdicts), "end", epoch_ms(closed_at), '
    "[(it.topic, it.partition, it.start_offset, epoch_ms(it.first_seen), epoch_ms(it.last_seen), epoch_ms(it.started_at), "
    "epoch_ms(it.exact_started_at), it.start_rank, "
    f"{', '.join(f'it.{name}' for name in GREATEST_OF_PARTITION)}, "
    "[(epoch_ms(seen.first_seen), seen.verdict) for seen in it.verdicts], it.groups, epoch_ms(it.closed_at), "
    "it.is_lost) for it in partitions]"
)


_BARE: Final = """
with partition_transactions as (
  select cluster_id, topic, partition, producer_id, start_offset, max(producer_epoch) as producer_epoch,
    max(transactional_id) as transactional_id, min(taken_at) as first_seen, max(taken_at) as last_seen,
    max(idle_ms) as idle_ms, max(duration_ms) as duration_ms, min(started_at) as started_at,
    list(distinct verdict) as verdicts
  from read_parquet(?, hive_partitioning = true) group by all),
transactions as (
  select cluster_id, producer_id, producer_epoch, started_at, max(transactional_id) as transactional_id,
    max(duration_ms) as duration_ms,
    list(struct_pack(topic, partition, first_seen, last_seen, idle_ms, verdicts)) as partitions
  from partition_transactions group by all)
select cluster_id, transactional_id, sum(len(partitions)), quantile_cont(duration_ms, [0.5, 0.95, 0.99])
from transactions group by all
"""


def ask_bare(history: Path, *, cores: int, memory: str) -> None:
    """Percentiles straight from the history: no closings, no order of verdicts, nothing written."""
    with _connected(cores, memory) as connection:
        connection.execute(_BARE, [str(history / VERSION / OBSERVATIONS / "*" / "*" / "*.parquet")]).fetchall()


def make_tables(history: Path, folder: Path, *, rows: int, cores: int, memory: str) -> None:
    """Transactions by the hour of their end, below `folder`; of many rows those of some producers at a time."""
    parameters: dict[str, Any] = {
        "sources": list(START_SOURCES),
        "exact": list(EXACT_SOURCES),
        "observations": str(history / VERSION / OBSERVATIONS / "*" / "*" / "*.parquet"),
        "cycles": str(history / VERSION / CYCLES / "*" / "*" / "*.parquet"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    passes = math.ceil(rows / ROWS_OF_A_PASS)
    for number in range(passes):
        with _connected(cores, memory) as connection:
            connection.execute(
                f"copy ({_TRANSACTIONS}) to '{folder / f'pass-{number}'}' "
                "(format parquet, compression zstd, partition_by (cluster_id, date, hour))",
                parameters | {"passes": passes, "number": number},
            )


def ask_percentiles(folder: Path, *, cores: int, memory: str) -> None:
    """Durations and idle times by transactional id and by topic, of these tables."""
    with _connected(cores, memory) as connection:
        source = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
        usual = (
            "count(*), quantile_cont(duration_ms, [0.25, 0.5, 0.75, 0.95, 0.99]), max(duration_ms), "
            "quantile_cont(idle_ms, 0.99)"
        )
        for subject in ("transactional_id", "unnest(list_distinct([it.topic for it in partitions]))"):
            connection.execute(
                f"select cluster_id, subject, {usual} from (select cluster_id, duration_ms, idle_ms, {subject} as subject "
                f"from {source} where \"end\" = 'closed') group by all"
            ).fetchall()


def digest(files: Iterable[Path]) -> tuple[int, int]:
    """(rows, sum of the hashes of their values) of tables of transactions."""
    with _connected(None, None) as connection:
        (found,) = connection.execute(
            f"select count(*), sum(hash({_COLUMNS})) from read_parquet(?, hive_partitioning = true, union_by_name = true)",
            [[str(file) for file in files]],
        ).fetchall()
    return int(found[0]), int(found[1])


def _connected(cores: int | None, memory: str | None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.execute("set enable_progress_bar = false")
    connection.execute(f"set temp_directory = '{SPILLED}'")
    if cores is not None:
        connection.execute(f"set threads = {cores}")
    if memory is not None:
        connection.execute(f"set memory_limit = '{memory}'")
    return connection
