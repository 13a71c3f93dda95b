"""The wheel, installed in an environment of its own, and projects that use it."""

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.gateway_process import ROOT

_TIMEOUT_SECONDS = 300


def install_wheel(folder: Path) -> Path:
    """Build a wheel and install it beside the packages of this environment; return its Python.

    The packages are found by a path file, which does not apply the path files in that folder: the
    checkout, which is installed in this environment as editable, is not found.
    """
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    [wheel] = folder.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    packages = sysconfig.get_path("purelib", vars={"base": str(environment)})
    others = "\n".join(path for path in sys.path if path.endswith("site-packages"))
    (Path(packages) / "test_packages.pth").write_text(others + "\n")
    _pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    return python


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Project:
    """A project outside the checkout, whose environment has the wheel."""

    folder: Path
    python: Path

    def write(self, name: str, content: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run its tests."""
        removed = ("PYTHONPATH", "VIRTUAL_ENV", "OPENAI_BASE_URL", "OPENAI_API_KEY", "CI")
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in removed and not name.startswith("PYTEST_")
        }
        return subprocess.run(  # noqa: S603 - our own command
            # As the command `pytest`, which does not add the working directory to the path.
            [str(self.python), "-P", "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.folder,
            env=inherited | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )

    def check(self, *arguments: str, **environment: str) -> str:
        """Run its tests, which must pass; return the output."""
        done = self.run(*arguments, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
