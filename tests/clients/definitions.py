"""The clients in `clients.toml`, and their environments."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.gateway.gateway_config import DIALECTS

FOLDER = Path(__file__).parent
DRIVERS = FOLDER / "drivers"
# The environments of the clients; git ignores them.
ENVIRONMENTS = FOLDER.parent.parent / ".clients"


class Client(Struct, frozen=True, forbid_unknown_fields=True):
    """A client, which its driver runs."""

    name: str
    # The dialect that the client speaks.
    dialect: str
    # The folder of the environment, which clients may share.
    environment: str
    # The packages in it: of PyPI for a driver in Python, else of npm.
    packages: tuple[str, ...]
    driver: str
    arguments: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("unary", "streamed")
    backends: tuple[str, ...] = DIALECTS
    # The pattern of the names of its models.
    model: str = "{}"
    # Why runs fail by a fault of the client itself.
    fault: str | None = None

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.environment

    @property
    def is_python(self) -> bool:
        return self.driver.endswith(".py")

    def command(self) -> list[str]:
        if self.is_python:
            return [str(self.folder / "bin/python"), str(DRIVERS / self.driver), *self.arguments]
        # Node.js resolves packages from the folder of a module.
        for module in DRIVERS.glob("*.mjs"):
            shutil.copy(module, self.folder)
        return ["node", str(self.folder / self.driver), *self.arguments]

    def install(self) -> None:
        """Create the environment, unless it has these packages already."""
        installed = self.folder / "packages.json"
        wanted = json.dumps(self.packages)
        if installed.exists() and installed.read_text() == wanted:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for command in self._install_commands():
            _run(command)
        installed.write_text(wanted)

    def _install_commands(self) -> list[list[str]]:
        folder = str(self.folder)
        if not self.is_python:
            # The driver of an npm package may start its command.
            return [["npm", "install", "--silent", "--no-fund", "--prefix", folder, *self.packages]]
        python = str(self.folder / "bin/python")
        if uv := shutil.which("uv"):
            return [
                [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder],
                [uv, "pip", "install", "--quiet", "--python", python, *self.packages],
            ]
        return [
            [sys.executable, "-m", "venv", folder],
            [python, "-m", "pip", "install", "--quiet", *self.packages],
        ]


class _File(Struct, forbid_unknown_fields=True):
    clients: list[Client]


def load_clients() -> list[Client]:
    """Return all clients in the order of the table."""
    content = (FOLDER / "clients.toml").read_bytes()
    return msgspec.toml.decode(content, type=_File).clients


def _run(command: list[str]) -> None:
    # A virtual environment must not see the packages of the one that runs this.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, check=True, env=environment)  # noqa: S603 - from clients.toml
