"""Hidden transactional ids: no sentence shows one, whatever its characters are and wherever it came from."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from exporter.evaluation.humanize import without_ids
from tests.each import each

PRODUCT = Path(__file__).parents[2] / "exporter"
IDS = st.text(min_size=1, max_size=30)


@given(IDS, IDS)
@example("payments-7", "it's")
@example("both ' and \"", "\\")
def test_what_is_quoted_is_hidden_and_nothing_else(first: str, second: str) -> None:
    """Two ids in one sentence, with apostrophes around them that begin no quotation."""
    sentence = f"The leader's view: the coordinator of {first!r} is offline ({second!r}), by brokers' clocks."

    assert without_ids(sentence) == (
        "The leader's view: the coordinator of (hidden) is offline ((hidden)), by brokers' clocks."
    )


@each(
    [
        ("operator's step", "root@vm's abort was refused: the coordinator of 'payments-7' is offline"),
        ("cause", "the coordinator's log has every state of transactional id 'payments-7', and none of its partitions"),
        ("baseline", "transactional id 'payments-7'"),
    ]
)
def test_sentences_that_name_an_id(case: tuple[str, str]) -> None:
    _, sentence = case

    assert "payments" not in without_ids(sentence)
    assert without_ids(sentence).count("(hidden)") == 1


def test_a_sentence_quotes_each_id() -> None:
    """Every f-string of the product that is a sentence about a transactional id has it as repr() writes it."""
    unquoted = []
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                unquoted += [
                    f"{path.relative_to(PRODUCT)}:{value.lineno}"
                    for value in node.values
                    if isinstance(value, ast.FormattedValue)
                    and ast.unparse(value.value).endswith(("transactional_id", "known_id"))
                    and value.conversion != ord("r")
                ]

    assert unquoted == []
