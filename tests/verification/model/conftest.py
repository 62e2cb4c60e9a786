"""Takes chance out of the exporter in every test of the model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verification.model import drive


@pytest.fixture(autouse=True)
def repeatable() -> Iterator[None]:
    with drive.repeatable():
        yield
