"""Writes incidents as JSON documents, and reads them back: the file of the daemon, and `incident --format json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from exporter.evaluation.verdicts import OutcomeEvidence, Verdict
from exporter.incidents.incident import EventKind, Incident, IncidentEvent, Incidents, Suspect
from exporter.snapshot import LATEST_MS, UNKNOWN_OFFSET, MarkerFinding, TransactionKey

T = TypeVar("T")
FORMAT: Final = "kafka-transaction-exporter incidents"
VERSION: Final = 1
_BY_LABEL: Final = {verdict.label: verdict for verdict in Verdict}


def document(incidents: Incidents) -> dict[str, Any]:
    """Returns the document of all incidents, with the format's name."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "cluster_id": incidents.cluster_id,
        "incidents": [of_incident(incident) for incident in incidents.all],
    }


def of_incident(incident: Incident) -> dict[str, Any]:
    """Returns the document of one incident; instants are in milliseconds."""
    return {
        "id": incident.id,
        "started_ms": incident.started_ms,
        "ended_ms": incident.ended_ms,
        "worst_verdict": incident.worst.label,
        "partitions": list(incident.partitions),
        "groups": list(incident.groups),
        "records_held_back": incident.records_held_back,
        "suspects": [_of_suspect(suspect) for suspect in incident.suspects],
        "more_suspects": incident.more_suspects,
        "events": [
            {"at_ms": event.at_ms, "kind": event.kind.value, "sentence": event.sentence} for event in incident.events
        ],
        "more_events": incident.more_events,
    }


def as_json(incident: Incident, url: str | None) -> str:
    """The document of one incident; `url` is that of its page, None if that is unknown."""
    return json.dumps({**of_incident(incident), "url": url}, indent=2)


def _of_suspect(suspect: Suspect) -> dict[str, Any]:
    return {
        "topic": suspect.key.topic,
        "partition": suspect.key.partition,
        "topic_id": suspect.key.topic_id,
        "producer_id": suspect.key.producer_id,
        "producer_epoch": suspect.producer_epoch,
        "start_offset": None if suspect.is_at_coordinator else suspect.key.start_offset,
        "transactional_id": suspect.transactional_id,
        "start_ms": suspect.start_ms,
        "suspect_at_ms": suspect.suspect_at_ms,
        "ended_at_ms": suspect.ended_at_ms,
        "verdict": suspect.verdict.label,
        "worst_verdict": suspect.worst.label,
        "reason": suspect.reason,
        "outcome_evidence": suspect.outcome,
        "records_held_back": suspect.records_held_back,
        "groups": list(suspect.groups),
        "cause": suspect.cause,
        "because": suspect.because,
        "markers": None if suspect.markers is None else suspect.markers.value,
    }


def incidents_of(document: Any) -> Incidents:
    """The incidents of a document. Raises ValueError, KeyError or TypeError for anything else."""
    if document["format"] != FORMAT or document["version"] != VERSION:
        raise ValueError(f"format {document['format']!r}, version {document['version']!r}")
    return Incidents(
        cluster_id=_text(document, "cluster_id"), all=tuple(_incident(entry) for entry in _list(document, "incidents"))
    )


def _incident(document: Mapping[str, Any]) -> Incident:
    suspects = tuple(_suspect(entry) for entry in _list(document, "suspects"))
    if not suspects:
        raise ValueError("an incident has no suspect")
    started_ms = _number(document, "started_ms")
    if not 0 <= started_ms <= LATEST_MS:
        raise ValueError("started_ms is not an instant")  # which the id of the incident shows
    return Incident(
        started_ms=started_ms,
        suspects=suspects,
        more_suspects=_number(document, "more_suspects"),
        events=tuple(
            IncidentEvent(_number(event, "at_ms"), EventKind(event["kind"]), _text(event, "sentence"))
            for event in _list(document, "events")
        ),
        more_events=_number(document, "more_events"),
    )


def _suspect(document: Mapping[str, Any]) -> Suspect:
    key = TransactionKey(
        topic=_text(document, "topic"),
        partition=_number(document, "partition"),
        producer_id=_number(document, "producer_id"),
        start_offset=UNKNOWN_OFFSET if document["start_offset"] is None else _number(document, "start_offset"),
        topic_id=_text(document, "topic_id"),
    )
    return Suspect(
        key=key,
        producer_epoch=_number(document, "producer_epoch"),
        transactional_id=None if document["transactional_id"] is None else _text(document, "transactional_id"),
        suspect_at_ms=_number(document, "suspect_at_ms"),
        start_ms=_number(document, "start_ms"),
        verdict=_BY_LABEL[document["verdict"]],
        worst=_BY_LABEL[document["worst_verdict"]],
        reason=_text(document, "reason"),
        outcome=OutcomeEvidence(document["outcome_evidence"]).value,
        records_held_back=None if document["records_held_back"] is None else _number(document, "records_held_back"),
        groups=tuple(_text({"group": group}, "group") for group in _list(document, "groups")),
        ended_at_ms=None if document["ended_at_ms"] is None else _number(document, "ended_at_ms"),
        markers=None if document.get("markers") is None else MarkerFinding(document["markers"]),
        cause=_text({"cause": "", **document}, "cause"),  # files of earlier versions have none of the three
        because=_text({"because": "", **document}, "because"),
    )


def _typed(kind: type[T], words: str) -> Callable[[Mapping[str, Any], str], T]:
    def typed(document: Mapping[str, Any], name: str) -> T:
        value = document[name]
        if type(value) is not kind:
            raise TypeError(f"{name} is not {words}")
        return value

    return typed


_number, _text, _list = _typed(int, "a number"), _typed(str, "a text"), _typed(list, "a list")
