"""Options of the cases in a folder, from its file `cases.toml`."""

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from gateway.config.schema import DialectName, ImportPath, TransformConfig
from gateway.pytest_plugin.cases import Case, CaseError, check_capabilities

OPTIONS_FILE = "cases.toml"


class CaseOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """How the cases of a folder and of the folders in it are translated."""

    # None for those that are described at `targets_of`.
    targets: Annotated[tuple[DialectName, ...], Meta(min_length=1)] | None = None
    profile: str | None = None
    capabilities: dict[str, object] = {}
    # In the order in which requests pass them.
    transforms: tuple[ImportPath | TransformConfig, ...] = ()

    def __post_init__(self) -> None:
        check_capabilities(self.profile, self.capabilities)

    def targets_of(self, case: Case) -> tuple[str, ...]:
        """Return the dialects that a case is translated to.

        Transforms change a body in its own dialect, too.
        """
        own = (case.dialect,) if self.transforms else ()
        return self.targets or (*own, *case.others())


def read_options(folder: Path, root: Path) -> CaseOptions:
    """Return the options of the nearest file, from a folder up to the root of all cases."""
    for parent in (folder, *folder.parents):
        path = parent / OPTIONS_FILE
        if path.exists():
            return _read(path)
        if parent == root:
            break
    return CaseOptions()


def _read(path: Path) -> CaseOptions:
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), CaseOptions)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise CaseError(f"{path}: {error}") from None
