"""Fixtures for tests of the configuration."""

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dragoman.toml"
