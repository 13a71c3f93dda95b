"""Write docs/losses.md from the snapshots of losses.

python -m tests.losses_page
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from typing_extensions import get_type_hints

from adapters import DIALECTS
from tests.adapters.laws.unreported import (
    DEFAULTS,
    NOT_RECEIVED,
    NOT_SENT,
    NOT_SENT_TO_LEGACY,
    REPEATED_FIELDS,
)
from tests.judges.fields import request_types

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "losses.md"
LOSSES = ROOT / "snapshots" / "losses"

HEAD = """# Losses by field

This page lists what happens to a field of a request if the backend speaks another dialect than the
client. It is generated from `snapshots/losses/` by `python -m tests.losses_page`.

- *result*: `dropped`, `changed` or `invented` (added by the translation). `refused` means that the
  request is rejected with status 400 and an error that names the field.
- *severity*: see [the README](../README.md#losses).
- *reason*: the text that is reported. It is an example from the test cases, so the names of tools
  and models in it differ from request to request.
- `[*]` stands for any index.

The rows are those of a backend with the default capabilities; a profile or single capabilities
change them. A field without a row is carried without loss in all test cases. Only fields of
OpenAI's specification are listed. Other fields pass between Chat Completions and legacy functions,
and are dropped between these and the Responses API, unless the capability `extra_fields` names
them.

The page describes the translation library. The gateway also stores responses, and therefore accepts
`previous_response_id`, `conversation`, `background` and item references in front of every backend.
"""
UNREPORTED = """
## Fields that are left out without a loss

A test deletes each field of OpenAI's specification in turn. What is sent or the losses must change,
except for these fields of requests (`input`), replies and streams:

| field | reason |
|---|---|
"""
DEFAULTS_HEAD = "Some servers have no fields for these values, which mean the same as no value:"
REPEATED = (
    "Chat and legacy clients do not receive the fields of a response that repeat its request:"
)
SECTION = """
## {client} clients

| field | backend | result | severity | reason |
|---|---|---|---|---|
"""
TITLES = {"chat": "Chat Completions", "responses": "Responses API", "legacy": "Legacy functions"}
LINE = re.compile(r"(?P<severity>\w+) +(?P<result>\w+) +(?P<path>[^:]+): (?P<reason>.*)")


class Row(Struct, frozen=True):
    backend: str
    severity: str
    result: str
    path: str
    reason: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What rows with different examples have in common."""
        return self.path, self.result, self.severity, self.reason.partition(";")[0]


def page() -> str:
    known = {name for params in request_types() for name in get_type_hints(params)}
    sections = (section(client, known) for client in DIALECTS)
    return HEAD + "".join(sections) + unreported_section()


def unreported_section() -> str:
    """Return the section of fields that are left out without a loss."""
    legacy = {f"{path} (legacy)": reason for path, reason in NOT_SENT_TO_LEGACY.items()}
    paths = {**NOT_SENT, **legacy, **NOT_RECEIVED}
    rows = (f"| `{path}` | {reason} |\n" for path, reason in sorted(paths.items()))
    defaults = ", ".join(
        f"`{name}: {json.dumps(value)}`" for name, values in DEFAULTS.items() for value in values
    )
    repeated = ", ".join(f"`{name}`" for name in sorted(REPEATED_FIELDS))
    return (
        UNREPORTED
        + "".join(rows)
        + f"\n{DEFAULTS_HEAD}\n\n{defaults}.\n\n{REPEATED}\n\n{repeated}.\n"
    )


def section(client: str, known: set[str]) -> str:
    """Return the section of one client dialect, ordered by field."""
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in sorted(rows(client, known), key=lambda row: row.path):
        groups.setdefault(row.key, []).append(row)
    lines = (write_line(group) for group in groups.values())
    return SECTION.format(client=TITLES.get(client, client)) + "".join(lines)


def rows(client: str, known: set[str]) -> Iterator[Row]:
    """Read the snapshots of one client dialect, without fields that no specification has."""
    for file in sorted(LOSSES.glob(f"{client}-to-*.txt")):
        backend = file.stem.partition("-to-")[2]
        for match in filter(None, map(LINE.match, file.read_text().splitlines())):
            if match["path"].replace("[*]", "").rpartition(".")[2] in known:
                yield Row(backend, **match.groupdict())


def write_line(group: list[Row]) -> str:
    first = group[0]
    backends = ", ".join(f"`{name}`" for name in dict.fromkeys(row.backend for row in group))
    reason = first.reason.replace("|", "\\|")
    return f"| `{first.path}` | {backends} | {first.result} | {first.severity} | {reason} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
