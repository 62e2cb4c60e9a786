"""PromQL of the dashboards as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

import promql_parser
from promql_parser import (
    AggregateExpr,
    BinaryExpr,
    Call,
    MatrixSelector,
    ParenExpr,
    SubqueryExpr,
    UnaryExpr,
    VectorSelector,
)

RATE_INTERVAL: Final = timedelta(seconds=1_234_567)
"""An unusual duration, in the place of $__rate_interval."""

Node = Any


def parsed(expression: str) -> Node:
    """The tree of an expression with its variables; an error where it is none."""
    rate_interval = f"{RATE_INTERVAL.total_seconds():.0f}s"
    return promql_parser.parse(expression.replace("$__rate_interval", rate_interval).replace("$__range", "6h"))


def nodes(node: Node, above: Sequence[Node] = ()) -> Iterator[tuple[Node, Sequence[Node]]]:
    """Every node with those above it, the nearest last. Parentheses are not counted."""
    if isinstance(node, ParenExpr):
        yield from nodes(node.expr, above)
        return
    yield node, above
    below: list[Node] = []
    if isinstance(node, BinaryExpr):
        below = [node.lhs, node.rhs]
    elif isinstance(node, AggregateExpr | UnaryExpr | SubqueryExpr):
        below = [node.expr]
    elif isinstance(node, Call):
        below = list(node.args)
    elif isinstance(node, MatrixSelector):
        below = [node.vector_selector]
    for child in below:
        yield from nodes(child, [*above, node])


def selectors(expression: str) -> Iterator[VectorSelector]:
    """Every selector of an expression."""
    for node, _ in nodes(parsed(expression)):
        if isinstance(node, VectorSelector):
            yield node
