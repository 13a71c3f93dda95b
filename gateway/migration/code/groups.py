"""Files that import each other, and are migrated together."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

# A source without any of these words has nothing to migrate.
_LEGACY = re.compile(
    r"function_call|\bfunctions\b|[\"']function[\"']|ChatCompletion|\bopenai\.(?:error|api_|[A-Z])"
    r"|from openai import|[Oo]pen[Aa][Ii]_?[Ff]unctions?|bind_functions"
)
# A source without any of these words has nothing to do with replies or messages.
_RELATED = re.compile(r"choices|message|openai|completion|history|tool", re.IGNORECASE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
_NAME = re.compile(r"\w+")


def is_legacy(code: str) -> bool:
    """Whether a source may have legacy code."""
    return _LEGACY.search(code) is not None


def find_groups(codes: Mapping[Path, str]) -> Iterator[list[Path]]:
    """Yield the groups of sources with legacy code, and those that they import or are imported by.

    A group has sources that import each other directly or by way of others of the group.
    """
    legacy = {path for path, code in codes.items() if is_legacy(code)}
    by_name: dict[str, list[Path]] = {}
    for path in codes:
        by_name.setdefault(module_name(path), []).append(path)
    links = {path: _imported(path, codes[path], by_name) for path in codes}
    groups = {path: [path] for path in legacy}
    for path, others in links.items():
        for other in others:
            pair = (path, other)
            if not legacy.intersection(pair):
                continue
            if all(one in legacy or _RELATED.search(codes[one]) for one in pair):
                _join(groups, path, other)
    seen: set[int] = set()
    for path in codes:
        if path in groups and id(groups[path]) not in seen:
            seen.add(id(groups[path]))
            yield sorted(groups[path])


def _join(groups: dict[Path, list[Path]], first: Path, second: Path) -> None:
    one, other = groups.setdefault(first, [first]), groups.setdefault(second, [second])
    if one is not other:
        one += other
        for path in other:
            groups[path] = one


def module_name(path: Path) -> str:
    """Return the name by which a source is imported, without its packages."""
    return path.parent.name if path.stem == "__init__" else path.stem


def _imported(path: Path, code: str, by_name: Mapping[str, list[Path]]) -> set[Path]:
    """Return the sources that a source imports."""
    found: set[Path] = set()
    for match in _IMPORT.findall(code):
        for name in {word for part in match for word in _NAME.findall(part)}:
            others = [one for one in by_name.get(name, ()) if one != path]
            near = [one for one in others if one.parent == path.parent]
            found.update(near[:1] or others[:1])
    return found
