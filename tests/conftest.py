"""Fixtures of every test: real brokers and Spark, started when first used, shared by the session where a test allows it."""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.maven import SUPPORTED
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from tests.browser import Browser, open_browser
from tests.marks import (
    NO_PROGRAMS,
    mark_by_fixtures,
    may_start_programs,
    only_our_programs,
    restored_path,
    starts,
    watch_programs,
)
from tests.workers import ByRoom, piece_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SessionCluster = Callable[[str], KafkaCluster]
MakeCluster = Callable[..., KafkaCluster]
FreshName = Callable[[str], str]
MakeTopic = Callable[..., str]

numbers = itertools.count(1)

SELDOM: Final = "400"
"""By how many percent the heap of a Go program grows before it collects garbage: promtool and Helm end before that pays."""
SELDOM_IN_PYTHON: Final = (50_000, 20, 100)
"""Thresholds of this process's own collector, which skips what collection made: up to an eighth of its processor."""

# A machine that does something else besides is no reason for a property to fail.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("thorough", settings.get_profile("any machine"), max_examples=300)  # make test-all
settings.load_profile("any machine")


def pytest_configure() -> None:
    watch_programs()
    # A shell starts a background job with Ctrl-C ignored, and so would be every program that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("GOGC", SELDOM)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark_by_fixtures(item)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(*SELDOM_IN_PYTHON)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """A file stays with one worker; so do tests that share a broker, or the session of Spark."""
    return ByRoom(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Around setup and teardown as well: a test that sets the PATH puts back in its teardown what it has found."""
    with restored_path():
        if not may_start_programs(item):
            os.environ["PATH"] = NO_PROGRAMS
        result = yield
    if "PYTEST_XDIST_WORKER" in os.environ and nextitem and piece_of(nextitem.nodeid) != piece_of(item.nodeid):
        shared.close()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with contextlib.nullcontext() if may_start_programs(item) else only_our_programs():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with contextlib.nullcontext() if may_start_programs(item) else only_our_programs():
        yield


@pytest.fixture(autouse=True)
def log_level_restored() -> Iterator[None]:
    """A reload within the process sets the level of all loggers: a later test would hear more than it asserts."""
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)


class SharedClusters:
    """A one-node cluster of each version, booted by the first test that asks. An idle one takes 3 % of a processor."""

    def __init__(self) -> None:
        self._booted: dict[str, KafkaCluster] = {}
        self._ends = ExitStack()

    def of_version(self, version: str) -> KafkaCluster:
        if version not in self._booted:
            made = KafkaCluster(version, properties=HANGS_CAN_BE_PLANTED)
            self._booted[version] = self._ends.enter_context(made)
        return self._booted[version]

    def close(self) -> None:
        """What asks later boots again."""
        self._booted.clear()
        self._ends.close()


shared: Final = SharedClusters()


@pytest.fixture(scope="session")
@starts("broker")
def session_cluster() -> Iterator[SessionCluster]:
    """`session_cluster(version)`: ask for it in each test, since it ends with the piece of tests that share it."""
    yield shared.of_version
    shared.close()


@pytest.fixture
def kafka_4_3_1(session_cluster: SessionCluster) -> KafkaCluster:
    return session_cluster("4.3.1")


@pytest.fixture
def kafka_3_9_1(session_cluster: SessionCluster) -> KafkaCluster:
    return session_cluster("3.9.1")


SPARK_INTERPRETS: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""For a dozen rows, a query costs more to compile, and to plan again on the way, than to run."""
JAVA_CLASSES: Final = ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils")
"""PySpark has Java look for them again in each jar, three times for each column: a sixth of all its requests."""


def versions(*quick: str) -> list[Any]:
    """Every supported version, as the parameters of `broker`: those that are not `quick` are slow."""
    return [pytest.param(it, marks=() if it in quick else pytest.mark.slow) for it in SUPPORTED]


@pytest.fixture(params=versions("4.3.1", "3.9.1"))
def broker(request: pytest.FixtureRequest, session_cluster: SessionCluster) -> KafkaCluster:
    """Each supported version in turn; hangs can be planted. Leave it running: others share it."""
    return session_cluster(request.param)


@pytest.fixture
@starts("broker")
def make_cluster() -> Iterator[MakeCluster]:
    """Boots private clusters, `make_cluster(version, nodes=1, properties=None)`, and ends them after the test."""
    with ExitStack() as stack:

        def make(version: str, *, nodes: int = 1, properties: Properties | None = None) -> KafkaCluster:
            chosen = {**HANGS_CAN_BE_PLANTED, **(properties or {})}
            return stack.enter_context(KafkaCluster(version, nodes=nodes, properties=chosen))

        yield make


@pytest.fixture(scope="session")
@starts("spark")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for the whole run, on the loopback: a gigabyte, since Delta keeps a snapshot of each table."""
    from exporter.pipeline.connectors import DELTA, DELTA_SETTINGS, jars_of  # noqa: PLC0415 - likewise
    from exporter.pipeline.log_store import LOG_STORE_SETTINGS, load_log_store  # noqa: PLC0415 - likewise
    from exporter.pipeline.session import open_session  # noqa: PLC0415 - loads Spark, which few tests need
    from tests.brokers.jars import spark_jars  # noqa: PLC0415 - likewise

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    temporary = str(tmp_path_factory.mktemp("spark"))
    more = {**SPARK_INTERPRETS, **jars_of(spark_jars(), [DELTA]), **DELTA_SETTINGS, **LOG_STORE_SETTINGS}
    session = open_session("local[2]", temporary, memory="1g", is_short=True, partitions=2, more=more)
    load_log_store(session, tmp_path_factory.mktemp("classes"), in_s3=True)
    java: Any = session.sparkContext._jvm
    for name in JAVA_CLASSES:
        setattr(java, name, getattr(java, name))
    yield session
    session.stop()


@pytest.fixture(scope="module")
@starts("browser")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def fresh_name() -> FreshName:
    """Names that no other test of any run has used: topics, transactional ids."""
    return lambda stem: f"{stem}-{os.getpid()}-{next(numbers)}"


@pytest.fixture
def make_topic(fresh_name: FreshName) -> Iterator[MakeTopic]:
    """Creates topics, `make_topic(cluster, partitions=1, config=None)`, and deletes them after the test.

    Deleting a topic also ends the hangs planted on it, so that a shared cluster stays clean.
    """
    with ExitStack() as stack:

        def make(cluster: KafkaCluster, *, partitions: int = 1, config: dict[str, str] | None = None) -> str:
            name = cluster.topics.create(fresh_name("topic"), partitions=partitions, config=config)
            stack.callback(cluster.topics.delete, name)
            return name

        yield make
