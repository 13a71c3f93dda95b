"""A program in a copy of its folder, run with a gateway as its model."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

_TIMEOUT_SECONDS: Final = 600
# Not copied, because no program needs them.
_SKIPPED: Final = frozenset(
    (".git", ".hg", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".tox", ".nox")
)


class ProgramRun(Struct, frozen=True):
    """What a program printed, and its exit code; None if it was ended after the timeout."""

    exit_code: int | None
    stdout: str
    stderr: str


def copy_folder(folder: Path, copy: Path) -> None:
    """Copy a folder; virtual environments and installed packages are linked."""
    linked: list[Path] = []

    def ignore(parent: str, names: list[str]) -> set[str]:
        large = {name for name in names if _is_installed(Path(parent, name))}
        linked.extend(Path(parent, name) for name in large)
        return large | _SKIPPED.intersection(names)

    shutil.copytree(folder, copy, symlinks=True, ignore=ignore)
    for original in linked:
        (copy / original.relative_to(folder)).symlink_to(original)


def _is_installed(folder: Path) -> bool:
    return folder.name == "node_modules" or (folder / "pyvenv.cfg").exists()


def run_program(command: str, folder: Path, address: str) -> ProgramRun:
    """Run a command of the shell in a folder; its requests are sent to a gateway."""
    process = subprocess.Popen(  # noqa: S602 - the user's own command, as in their shell
        command,
        shell=True,
        cwd=folder,
        env=_environment(os.environ, folder, address),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    exit_code: int | None
    try:
        stdout, stderr = process.communicate(timeout=_TIMEOUT_SECONDS)
        exit_code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        exit_code = None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return ProgramRun(exit_code, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


def _environment(given: Mapping[str, str], folder: Path, address: str) -> dict[str, str]:
    """Return the environment of a program, in which every client uses the gateway."""
    # The copy must be found before the same package that is installed in development mode.
    paths = [str(folder), str(folder / "src"), given.get("PYTHONPATH", "")]
    return {
        "OPENAI_API_VERSION": "2024-10-21",
        # With the variables of OpenAI and of Azure, the client of the module needs a choice.
        "OPENAI_API_TYPE": "openai",
        **given,
        "OPENAI_BASE_URL": f"{address}/v1",
        # The name in version 0.28 of the openai package.
        "OPENAI_API_BASE": f"{address}/v1",
        "OPENAI_API_KEY": "verification",
        "AZURE_OPENAI_ENDPOINT": address,
        "AZURE_OPENAI_API_KEY": "verification",
        "AZURE_OPENAI_KEY": "verification",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
