"""`python -m tests.verification.standstill.random_groups`: asks `why` about groups at random offsets of random logs.

The truth is what a consumer of committed records reads from each offset of a real broker. A login that sees everything
must say it exactly; one with less rights may know less, but nothing that is false. The cycle of `serve` must name the same
groups.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from exporter.evaluation.verdicts import Policy
from exporter.kafka.collect.next_records import POSITIONS_MAX
from hangbench.kafka.acls import acls_until_the_end
from hangbench.kafka.coordinators import described
from hangbench.kafka.groups import commit_all
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from hangbench.kafka.second_door import GuardedCluster, java_login
from tests.real_brokers.exporting import AT_ONCE, called
from tests.verification.standstill.random_logs import OWNER_IDS, Log, Place, read_logs, write_logs
from tests.watching import Watch

GROUPS: Final = 120
RULES_SHARE: Final = 0.3
"""Share of users who may read all topics but two, which are denied."""
TOPICS_OF_GROUP_MAX: Final = 3
USERS: Final = tuple(f"user-{number}" for number in range(6))
PROPERTIES: Final[dict[str, str | int]] = {
    **{name: str(value) for name, value in HANGS_CAN_BE_PLANTED.items()},
    "log.cleaner.backoff.ms": 200,
    "log.retention.check.interval.ms": 500,
}


@dataclass
class Outcome:
    """How many positions were judged, by where they stand, and what was wrong."""

    judged: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def positions_of(logs: Mapping[Place, Log], chance: random.Random) -> dict[Place, int]:
    """Random offsets of a group on all partitions of some topics."""
    topics = chance.sample(sorted({topic for topic, _ in logs}), chance.randint(1, TOPICS_OF_GROUP_MAX))
    found = {}
    for place, log in logs.items():
        if place[0] in topics:
            stable, end = log.last_stable_offset, log.high_watermark
            likely = [log.begins_at, stable - 1, stable, stable, stable + 1, end - 1, end]
            likely += [record + 1 for record in log.committed[-2:]]
            at = chance.choice(likely) if chance.random() < 0.7 else chance.randint(log.begins_at, end)
            found[place] = min(max(at, log.begins_at), end)
    return found


def rights_of(user: str, topics: Iterable[str], chance: random.Random) -> Iterator[AclBinding]:
    """Random rights of a user who sees all groups."""

    def right(resource: ResourceType, name: str, operation: AclOperation, *, denied: bool = False) -> AclBinding:
        permission = AclPermissionType.DENY if denied else AclPermissionType.ALLOW
        return AclBinding(resource, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)

    yield right(ResourceType.GROUP, "*", AclOperation.DESCRIBE)
    topics = (*topics, "__consumer_offsets")
    if chance.random() < RULES_SHARE:
        yield right(ResourceType.TOPIC, "*", AclOperation.READ)
        for topic in chance.sample(topics, 2):
            yield right(ResourceType.TOPIC, topic, chance.choice((AclOperation.READ, AclOperation.ALL)), denied=True)
        topics = ()
    for topic in topics:
        operation = chance.choice((None, AclOperation.DESCRIBE, AclOperation.READ, AclOperation.READ))
        if operation is not None:
            yield right(ResourceType.TOPIC, topic, operation)
    for name in chance.choice(([], ["*"], list(OWNER_IDS[:2]))):
        yield right(ResourceType.TRANSACTIONAL_ID, name, AclOperation.DESCRIBE)
    if chance.random() < 0.5:
        yield right(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)


def _said(answer: Mapping[str, Any]) -> dict[Place, str]:
    """Where the group stands by the answer, on each partition that it names."""
    holds = [*answer["holds"], *answer["later"]]
    return {(one["transaction"]["topic"], one["transaction"]["partition"]): one.get("stands", "at") for one in holds}


def differences(answer: Mapping[str, Any], positions: Mapping[Place, int], logs: Mapping[Place, Log]) -> Iterator[str]:
    """Yields what a login that sees everything says otherwise than it is."""
    truth = {place: logs[place].stand(offset) for place, offset in positions.items()}
    said = _said(answer)
    for place, offset in positions.items():
        if truth[place] != said.get(place):
            yield f"{place} at {offset} is {truth[place]}, said {said.get(place)}: {logs[place]}"
    if answer["is_held"] is not ("at" in truth.values()):
        yield f"is_held is {answer['is_held']}"
    if bool(answer["unknown"]) is not ("beyond" in truth.values()):
        yield f"unknown: {answer['unknown']}"
    lag = sum(logs[place].high_watermark - offset for place, offset in positions.items())
    if answer["lag"] != lag:
        yield f"lag is {lag}, said {answer['lag']}"


def falsehoods(answer: Mapping[str, Any], positions: Mapping[Place, int], logs: Mapping[Place, Log]) -> Iterator[str]:
    """Yields what a login that sees a part says otherwise than it is, and what it denies without having seen it."""
    truth = {place: logs[place].stand(offset) for place, offset in positions.items()}
    for place, stand in _said(answer).items():
        is_assumed = any(
            f"{place[0]}-{place[1]}" in each and "taken for an end marker" in each for each in answer["unknown"]
        )
        if truth.get(place) != stand and not (is_assumed and positions[place] == logs[place].last_stable_offset - 1):
            yield f"{place} at {positions.get(place)} is {truth.get(place)}, said {stand}: {logs[place]}"
    if answer["is_held"] and "at" not in truth.values() and not answer["unknown"]:
        yield "is_held is true"
    is_denied = not answer["is_held"] and not answer["unknown"] and not answer["hides_topics"]
    if is_denied and {"at", "beyond"} & set(truth.values()):
        yield "it is denied that the group is held"
    if is_denied and answer["partitions"] < len(positions):
        yield f"it is denied on {answer['partitions']} of {len(positions)} partitions"


def _places_of(answer: Mapping[str, Any]) -> AbstractSet[Place]:
    return {(hold["transaction"]["topic"], hold["transaction"]["partition"]) for hold in answer["holds"]}


def wrong_about_owner(answer: Mapping[str, Any], truth: AbstractSet[Place], *, sees_all: bool) -> Iterator[str]:
    """Yields what an answer about a transactional id says otherwise than its coordinator; less may be known, not more."""
    said = _places_of(answer)
    is_less = bool(answer["unknown"]) or answer["hides_topics"]
    if said - truth or (truth - said and (sees_all or not is_less)) or (sees_all and is_less):
        yield f"{truth} are open, said {said}, unknown {answer['unknown']}, hides topics {answer['hides_topics']}"


def wrong_about_topic(answer: Mapping[str, Any], topic: str, logs: Mapping[Place, Log]) -> Iterator[str]:
    """Yields what a login, whatever its rights, says otherwise than it is of the partitions of a topic."""
    truth = {place for place, log in logs.items() if place[0] == topic and log.last_stable_offset < log.high_watermark}
    said = _places_of(answer)
    if said - truth or (truth - said and not answer["unknown"]):
        yield f"{truth} are held, said {said}, unknown {answer['unknown']}"


def wrong_about_hangs(answer: Mapping[str, Any], logs: Mapping[Place, Log], *, is_complete: bool) -> Iterator[str]:
    """Yields what is called a hang and is none, and what is none by an answer that calls itself complete."""
    rows = answer["transactions"]
    said = {(row["topic"], row["partition"]) for row in rows if row["verdict"].startswith("hanging")}
    truth = {place for place, log in logs.items() if log.of_hang}
    if said - truth or (is_complete and truth - said):
        yield f"{truth} hang, said {said}, complete {is_complete}"


def partitions_of(bootstrap: str, transactional_id: str) -> AbstractSet[Place]:
    found = described(bootstrap, transactional_id)
    assert found is not None
    return {(topic.topic, partition) for topic in found.topics for partition in topic.partitions}


@dataclass
class Asker:
    """Puts questions to a command as users with different rights, and keeps what is wrong with the answers."""

    cluster: GuardedCluster
    folder: Path
    outcome: Outcome

    def ask(
        self,
        subject: str,
        user: str | None,
        question: Sequence[str],
        judge: Callable[[Mapping[str, Any]], Iterable[str]],
        *,
        refusal: str = "",
        command: str = "why",
    ) -> None:
        """`judge` gets the answer with its exit `status`; a user with few rights may get `refusal` instead."""
        status, errors, answer = self._answer(user, command, *question)
        if answer is not None:
            problems = list(judge({**answer, "status": status}))
        else:
            is_refused = user is not None and refusal != "" and refusal in errors
            problems = [] if is_refused else [f"status {status}: {errors}"]
        self.outcome.wrong += [f"{subject}, {user or 'all rights'}: {problem}" for problem in problems]

    def _answer(self, user: str | None, command: str, *question: str) -> tuple[int, str, Mapping[str, Any] | None]:
        login = self.folder / f"{user}.properties"
        if user is not None:
            login.write_text(java_login(user))
        address = self.cluster.bootstrap if user is None else self.cluster.door
        words = [command, "--bootstrap-server", address, *question, "--format", "json"]
        words += [] if user is None else ["--command-config", str(login)]
        done = called(self.folder, *words, **AT_ONCE)
        return done.returncode, done.stderr, json.loads(done.stdout) if done.stdout else None


def play(version: str, seed: int, groups: int) -> Outcome:
    """Every other group is asked about by a user with random rights."""
    chance, outcome = random.Random(seed), Outcome()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="random-groups-")))
        cluster = GuardedCluster(version, users=USERS, properties=PROPERTIES)
        stack.enter_context(cluster)
        create_acls = stack.enter_context(acls_until_the_end(cluster.bootstrap))
        places = write_logs(cluster, chance, stack)
        topics = sorted({topic for topic, _ in places})
        create_acls(acl for user in USERS for acl in rights_of(user, topics, chance))
        logs = read_logs(cluster.bootstrap, places)
        of_group = {f"group-{number}": positions_of(logs, chance) for number in range(groups)}
        for group, positions in of_group.items():
            commit_all(cluster.bootstrap, group, positions)
        asker = Asker(cluster, folder, outcome)
        for number, (group, positions) in enumerate(of_group.items()):
            user = chance.choice(USERS) if number % 2 else None
            logs = _ask_about_group(asker, group, user, positions, logs)
        for user in (None, *USERS):
            _ask_about_the_rest(asker, user, topics, logs)
        outcome.wrong += _wrong_in_cycle(cluster, of_group, logs)
    return outcome


def _ask_about_group(
    asker: Asker, group: str, user: str | None, positions: Mapping[Place, int], before: Mapping[Place, Log]
) -> Mapping[Place, Log]:
    """Returns the logs after the answer: the cleaner may be at work, and the answer is of either instant."""
    rules = differences if user is None else falsehoods
    after = before

    def judge(answer: Mapping[str, Any]) -> Sequence[str]:
        nonlocal after
        after = read_logs(asker.cluster.bootstrap, tuple(before))
        return list(rules(answer, positions, after)) and list(rules(answer, positions, before))

    asker.ask(group, user, ("--group", group), judge)
    asker.outcome.judged.update(after[place].stand(offset) or "free" for place, offset in positions.items())
    return after


def _ask_about_the_rest(asker: Asker, user: str | None, topics: Iterable[str], logs: Mapping[Place, Log]) -> None:
    for topic in topics:
        of_topic = partial(wrong_about_topic, topic=topic, logs=logs)
        asker.ask(topic, user, ("--topic", topic), of_topic, refusal="is not visible")
    for owner in OWNER_IDS:
        ongoing = partitions_of(asker.cluster.bootstrap, owner)
        of_owner = partial(wrong_about_owner, truth=ongoing, sees_all=user is None)
        refusal = "is not visible: grant DESCRIBE on it"
        asker.ask(owner, user, ("--transactional-id", owner), of_owner, refusal=refusal)

    def of_hangs(answer: Mapping[str, Any]) -> Iterator[str]:
        is_complete = answer["status"] == 0 and not answer["coverage"]["may_hide_topics"]
        return wrong_about_hangs(answer, logs, is_complete=is_complete)

    asker.ask("hangs", user, ("--all",), of_hangs, command="find-hanging")


def _wrong_in_cycle(
    cluster: GuardedCluster, of_group: Mapping[str, Mapping[Place, int]], logs: Mapping[Place, Log]
) -> Sequence[str]:
    before = {
        (place, offset)
        for positions in of_group.values()
        for place, offset in positions.items()
        if offset < logs[place].last_stable_offset < logs[place].high_watermark
    }
    with Watch(cluster.bootstrap, policy=Policy(blocked_after_ms=1)) as watch:
        for _ in range(1 + len(before) // POSITIONS_MAX):
            watch.cycle()
        evaluation = watch.cycle()
    named = {(each.group, each.topic, each.partition) for each in evaluation.blocked_groups}
    true = {
        (group, *place)
        for group, positions in of_group.items()
        for place, offset in positions.items()
        if logs[place].stand(offset) == "at"
    }
    extra = [f"the cycle names {each}, which is not held" for each in sorted(named - true)]
    return [*extra, *(f"the cycle does not name {each}" for each in sorted(true - named))]


def main() -> int:
    """The status is 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.standstill.random_groups", description=__doc__)
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=int, default=GROUPS)
    arguments = parser.parse_args()
    outcome = play(arguments.kafka, arguments.seed, arguments.groups)
    print("\n".join(outcome.wrong))
    print(
        f"Kafka {arguments.kafka}, seed {arguments.seed}: {arguments.groups} groups, {dict(outcome.judged)}, "
        f"{len(outcome.wrong)} wrong"
    )
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
