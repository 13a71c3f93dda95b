"""The files for containers and service managers, read as far as the tests need."""

import os
import re
import shlex
from typing import Any

import msgspec

from tests.gateway.gateway_process import ROOT

DEPLOY = ROOT / "deploy"
# The variables that the example configurations name.
ENVIRONMENT = {
    "SEALING_KEY": "00" * 32,
    "OPENAI_API_KEY": "sk-openai",
    "DATABASE_URL": "sqlite:dragoman.db",
}
Object = dict[str, Any]


def read_dockerfile() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return [(instruction, argument) for instruction, argument in pairs]


def image_environment() -> dict[str, str]:
    """Return the variables that the image sets, apart from the path of commands."""
    [variables] = [argument for name, argument in read_dockerfile() if name == "ENV"]
    given = dict(word.split("=", 1) for word in shlex.split(variables))
    return {name: value for name, value in given.items() if name != "PATH"}


def read_yaml(text: str) -> list[Object]:
    """Return the documents in a text."""
    return [msgspec.yaml.decode(part, type=Object) for part in text.split("\n---\n")]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a command, with the variables of the examples."""
    return {**os.environ, **ENVIRONMENT, **more}
