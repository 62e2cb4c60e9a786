"""Errors of settings lead to the cure: the name that was meant, or the file that is missing."""

from __future__ import annotations

import pytest

from exporter.config.loading import ConfigurationError, environment_name, load


def problems_of(text: str, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(file=("config.yaml", text), environment=environment or {}, flags={"kafka.bootstrap.servers": "a:1"})
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("publish.typo_here", None),
        ("publish.foo", None),
        ("state.path", None),
        ("publish.listen_adress", "publish.listen_address"),
        ("history.dir", "history.directory"),
        ("log.lvl", "log.level"),
        ("foo.bar", None),
        ("listen_address", "publish.listen_address"),
        ("scann.interval", "scan.interval"),
    ],
)
def test_only_a_similar_name_is_suggested(written: str, meant: str | None) -> None:
    """The section that two settings share says nothing, nor do the first words of every environment variable."""
    in_file = "" if meant is None else f"; did you mean {meant}?"
    assert problems_of(f"{written}: 1") == [f"config.yaml:1: {written}: unknown setting{in_file}"]
    if "." in written:
        variable = environment_name(written)
        in_environment = "" if meant is None else f"; did you mean {environment_name(meant)}?"
        assert problems_of("", {variable: "1"}) == [f"{variable}: unknown setting{in_environment}"]
