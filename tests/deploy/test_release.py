"""The release: its script builds a wheel and an sdist that work when they are installed."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from adapters import __version__
from tests.gateway.gateway_process import ROOT

SCRIPT = ROOT / ".ci" / "release"
_TIMEOUT_SECONDS = 600


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the script, which also installs both files and runs the command."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603 - our own script
        [str(SCRIPT), "--try", str(folder), sys.executable],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_both_files_are_built_and_installed(built: Path) -> None:
    names = {path.name for path in built.iterdir()}
    assert names == {
        f"dragoman-{__version__}-py3-none-any.whl",
        f"dragoman-{__version__}.tar.gz",
        "SHA256SUMS",
    }


def test_wheel_has_only_the_packages(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    folders = {name.split("/")[0] for name in names}
    assert folders == {"adapters", "gateway", f"dragoman-{__version__}.dist-info"}
    for name in ("adapters/py.typed", "gateway/py.typed"):
        assert name in names


def test_sdist_has_what_packagers_need(built: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in (
        "CHANGELOG.md",
        "Dockerfile",
        "compose.yaml",
        "deploy/systemd/dragoman.service",
        "docs/operations.md",
        "tests/deploy/test_release.py",
    ):
        assert name in names


def test_checklist_names_the_script() -> None:
    page = (ROOT / "docs" / "releasing.md").read_text()
    assert re.findall(r"^ +\.ci/release$", page, re.MULTILINE)
