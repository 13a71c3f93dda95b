"""Fixtures of the tests that install the plugin."""

import shutil
from pathlib import Path

import pytest

from tests.gateway.pytest_plugin.installed import Project, install_wheel

# The tests of another project, which run in its environment.
collect_ignore = ["sample"]

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the wheel."""
    return install_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def project(python: Path, tmp_path: Path) -> Project:
    """Return an empty project."""
    return Project(tmp_path, python)


@pytest.fixture
def sample(python: Path, tmp_path: Path) -> Project:
    """Return a copy of the sample project."""
    shutil.copytree(SAMPLE, tmp_path / "sample")
    return Project(tmp_path / "sample", python)
