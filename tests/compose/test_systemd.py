"""The unit and the settings of a host: systemd takes them, and so does the program."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from exporter import PROGRAM
from exporter.commands.arguments import build_parser
from exporter.commands.context import CONFIG_FILE
from tests.real_brokers.exporting import called

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "examples" / "systemd"
UNIT: Final = FOLDER / f"{PROGRAM}.service"
INSTALL: Final = (ROOT / "docs" / "install.md").read_text()
EXPOSURE_MAX: Final = 2.0
"""Of ten; systemd calls less than 2 OK."""


def value(name: str) -> str:
    (found,) = re.findall(rf"^{name}=(.+)$", UNIT.read_text(), re.MULTILINE)
    return str(found)


def test_its_paths_are_those_of_the_installation_and_of_the_runbooks() -> None:
    """The program, the settings and the password are where the commands of docs/install.md put them."""
    program, *words = value("ExecStart").split()
    variable, _, settings = value("Environment").partition("=")
    _, _, password = value("LoadCredential").partition(":")
    line = f"export {CONFIG_FILE}={settings}"

    assert build_parser().parse_args(words).command == "serve"
    assert f"{Path(program).parent}/pip install ." in INSTALL
    assert all(path in INSTALL for path in (settings, password, str(UNIT.relative_to(ROOT)), line))
    assert value("ProtectHome") == "yes"
    assert "with a Python outside `/root` and `/home`, which the unit cannot see" in INSTALL
    assert variable == CONFIG_FILE
    assert line in (ROOT / "alerts" / "runbooks" / "KafkaTransactionHanging.md").read_text()


def test_what_the_installation_makes_the_removal_names() -> None:
    """Nobody searches a host for what is left; the state folder is the unit's, which systemd removes."""
    section = INSTALL.partition("## A host with systemd")[2].partition("\n## ")[0]
    (first, *_) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    made = {Path(path) for path in re.findall(r"(?<=[ \n])/(?!dev/)\S+", first)}
    (removal,) = re.findall(r"^\d+\. To remove it: .*$", INSTALL, re.MULTILINE)
    named = {Path(path) for path in re.findall(r"`(/\S+)`", removal)}

    assert made
    assert not {path for path in made if not any(path.is_relative_to(each) for each in named)}
    assert value("StateDirectory") in re.findall(r"`systemctl clean --what=state (\S+)`", removal)


@pytest.mark.parametrize("with_login", [False, True])
def test_the_settings_are_valid(tmp_path: Path, *, with_login: bool) -> None:
    """As they are, and with all that is commented out."""
    text = (FOLDER / "config.yaml").read_text()
    if with_login:
        text = re.sub(r"^  # ", "  ", text, flags=re.MULTILINE).replace("  ssl.ca.location", "  # ssl.ca.location")
    (tmp_path / "password").write_text("s")
    (credential,) = re.findall(r"\$\{file:(.+?)\}", text)
    path = tmp_path / "config.yaml"
    path.write_text(text.replace(credential, str(tmp_path / "password")))
    run = called(tmp_path, "config", "check", **{CONFIG_FILE: str(path)})

    assert credential == f"/run/credentials/{UNIT.name}/{value('LoadCredential').partition(':')[0]}"
    assert run.returncode == 0, run.stderr


@pytest.mark.programs
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Every name is known, and little of the machine is left to the process."""
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("systemd-analyze is missing: the unit was not verified")
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace(value("ExecStart").split()[0], sys.executable))
    verified = subprocess.run([systemd, "verify", str(path)], capture_output=True, text=True, check=False)
    rated = subprocess.run(
        [systemd, "security", "--offline=yes", str(path)], capture_output=True, text=True, check=False
    )

    assert (verified.returncode, verified.stderr) == (0, "")
    (exposure,) = re.findall(r"exposure level for \S+: ([\d.]+)", rated.stdout)
    assert float(exposure) < EXPOSURE_MAX
