"""Compare the snapshots of a revision with those of the working tree, apart from sentences.

python -m tests.compare_snapshots REVISION

A change of wording alters many snapshots at once. This command shows that it alters nothing else:
it masks loss reasons and error messages, follows moved files and applies the renames below. It
prints each changed sentence, and a diff of each snapshot that differs in anything else; then the
exit code is 1. Differences of the OpenAPI document are listed but do not count.
"""

import io
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parent.parent
FOLDER = "snapshots"

# Old and new names of folders, and of keys and constants in the snapshots.
RENAMED_FOLDERS = {"hub": "ir", "schema": "openapi"}
RENAMED_NAMES = {"thought": "reasoning"}

_SEVERITY = "(?:adapted|hint|capability|meaning)"
_STRING = r'(?:[^"\\\n]|\\.)*'
# A loss in a list of losses, a line of a page of losses, an error, a text of the OpenAPI document.
_LOSS = rf'(?P<head>(?:dropped|changed|invented) [^"\n]*?: )(?P<text>.*?)(?P<tail> \({_SEVERITY}\))'
_LINE = rf"(?m)^(?P<head>{_SEVERITY} +\w+ +.+?: )(?P<text>.*)(?P<tail>)$"
_ERROR = rf'(?P<head>"(?:message|reason|why)": ?")(?P<text>{_STRING} {_STRING})(?P<tail>")'
_DESCRIPTION = rf'(?P<head>"(?:description|summary|title)": ")(?P<text>{_STRING})(?P<tail>")'
_PATTERNS = {"losses": [_LINE], "openapi": [_DESCRIPTION]}


class Masked(Struct, frozen=True):
    """A snapshot with its sentences taken out."""

    text: str
    sentences: tuple[str, ...]


class Comparison:
    def __init__(self, old: dict[str, Masked], new: dict[str, Masked]) -> None:
        self._old, self._new = old, new
        self.moved = dict(self._moves())
        self.sentences: Counter[tuple[str, str]] = Counter()
        self.differences: dict[str, list[str]] = {}
        targets = set(self.moved.values())
        for name in sorted((old.keys() | new.keys()) - targets):
            self._compare(name, self.moved.get(name, name))

    def _moves(self) -> Iterator[tuple[str, str]]:
        """Find the new names of snapshots by their content."""
        added = {self._new[name].text: name for name in self._new.keys() - self._old.keys()}
        for name in sorted(self._old.keys() - self._new.keys()):
            target = added.pop(self._old[name].text, None)
            if target is not None:
                yield name, target

    def _compare(self, old_name: str, new_name: str) -> None:
        nothing = Masked("", ())
        old, new = self._old.get(old_name, nothing), self._new.get(new_name, nothing)
        if old.text == new.text:
            pairs = zip(old.sentences, new.sentences, strict=True)
            self.sentences.update(pair for pair in pairs if pair[0] != pair[1])
            return
        before, after = old.text.splitlines(), new.text.splitlines()
        self.differences[new_name] = list(
            unified_diff(before, after, old_name, new_name, n=1, lineterm="")
        )


def mask(name: str, text: str) -> Masked:
    sentences: list[str] = []

    def take(match: re.Match[str]) -> str:
        sentences.append(match["text"])
        return f"{match['head']}…{match['tail']}"

    folder = name.partition("/")[0]
    for pattern in _PATTERNS.get(folder, [_LOSS, _ERROR]):
        text = re.sub(pattern, take, text)
    if folder == "losses":
        # The lines are sorted by their sentences, and equal ones are listed once.
        return Masked("\n".join(sorted(set(text.splitlines()))), ())
    return Masked(text, tuple(sentences))


def revision_snapshots(revision: str) -> dict[str, Masked]:
    """Read the snapshots of a revision, under their present names."""
    command = ["git", "archive", "--format=tar", revision, FOLDER]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout  # noqa: S603 - constant but for a revision
    snapshots: dict[str, Masked] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member)
            if content is not None:
                folder, _, rest = member.name.removeprefix(f"{FOLDER}/").partition("/")
                name = f"{RENAMED_FOLDERS.get(folder, folder)}/{rest}"
                text = content.read().decode()
                for old, new in RENAMED_NAMES.items():
                    text = text.replace(f'"{old}"', f'"{new}"')
                snapshots[name] = mask(name, text)
    return snapshots


def present_snapshots() -> dict[str, Masked]:
    folder = ROOT / FOLDER
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*")}
    return {name: mask(name, path.read_bytes().decode()) for name, path in paths.items()}


def report(comparison: Comparison) -> Iterator[str]:
    for old, new in (RENAMED_FOLDERS | RENAMED_NAMES | comparison.moved).items():
        yield f"renamed: {old} -> {new}"
    for (old, new), count in sorted(comparison.sentences.items()):
        yield f"sentence ({count} times): {old}\n{'->':>{len(str(count)) + 18}} {new}"
    for name, lines in sorted(comparison.differences.items()):
        yield f"differs: {name}"
        yield from lines
    differing, changed = len(comparison.differences), len(comparison.sentences)
    yield f"{differing} snapshots differ, {changed} sentences changed"


def main() -> int:
    (revision,) = sys.argv[1:]
    comparison = Comparison(revision_snapshots(revision), present_snapshots())
    sys.stdout.writelines(f"{line}\n" for line in report(comparison))
    return int(any(not name.startswith("openapi/") for name in comparison.differences))


if __name__ == "__main__":
    sys.exit(main())
