"""The results of the clients, and docs/clients.md, which shows them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.clients.definitions import Client
from tests.clients.quirks import quirk_names
from tests.gateway.gateway_config import DIALECTS

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "clients.md"
RESULTS = Path(__file__).parent / "results.json"
MODES = ("unary", "streamed")
CELLS = [" ".join(cell) for cell in product(DIALECTS, MODES)]

_MAX_ERROR = 200
_HEAD = """# Clients

Real clients, run through the gateway in front of backends of all three dialects. This page is
written by

```sh
.venv/bin/python -m tests.clients            # all clients
.venv/bin/python -m tests.clients LangChain  # those whose name contains a word
.venv/bin/python -m tests.clients --failed   # only the runs that failed last
```

The command installs each client in an environment of its own in `.clients/`, with pip or npm, or
with uv if it is installed. The clients are not part of the tests.

Each client has the same conversation: the model calls two tools in parallel with arguments that are
not ASCII, the client sends both results, the model answers, and a second question follows. The
backend accepts only a history with exact calls and results, and its answer contains the results. A
legacy client or backend has one call at a time.

A cell shows how many runs passed. An empty cell has no runs: Codex always requests a stream, and to
a Lite model it declares its tools in the input, where the backend of the test looks for tools only
after they were translated. The first run has a canonical backend; each other run has a backend with
one fault:

| fault | meaning | backend |
|---|---|---|
"""
_FAULTS = {
    "ids missing": "Calls have no id.",
    "ids empty": "The id of each call is empty.",
    "ids same": "Both calls have the same id.",
    "index missing": "Calls have no `index`; events have no `output_index`.",
    "index same": "Both calls have index 0.",
    "index from one": "Indices begin with 1.",
    "type missing": "Calls have no `type`.",
    "object arguments": "Arguments are an object instead of its JSON text.",
    "names repeated": "Each chunk of a call has its id and name.",
    "nulls": "Each chunk has the role, and fields without a value are null.",
    "interleaved": "The chunks of both calls alternate.",
    "finish stop": "The finish reason is `stop`, although there are calls.",
    "choices split": "The second call is in a choice of its own.",
    "choices missing": "The first chunk has no `choices`.",
    "other calls": "Calls have the form of the other dialect: `function_call` or `tool_calls`.",
    "not serial": "There are two calls, although `parallel_tool_calls` is false.",
    "no stream": "A whole reply is the answer to a request for a stream.",
    "no [DONE]": "The stream ends without `data: [DONE]`.",
}


class Failure(Struct, frozen=True, omit_defaults=True):
    """A run that failed."""

    # The dialect of the backend and the mode.
    cell: str
    quirk: str
    error: str
    # Why the client fails without the gateway too, if it does.
    alone: str | None = None


class Result(Struct, frozen=True):
    """The runs of a client: how many passed in each cell, and those that failed."""

    passed: dict[str, int]
    failures: list[Failure]

    @property
    def summary(self) -> str:
        total = sum(self.passed.values())
        return f"{total}/{total + len(self.failures)}"


def read_results() -> dict[str, Result]:
    return msgspec.json.decode(RESULTS.read_bytes(), type=dict[str, Result])


def write_results(clients: Sequence[Client], results: Mapping[str, Result]) -> None:
    """Write the results of these clients, and the page."""
    kept = {one.name: results[one.name] for one in clients if one.name in results}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    PAGE.write_text(render_page(clients, kept))


def render_page(clients: Sequence[Client], results: Mapping[str, Result]) -> str:
    return (
        _HEAD
        + "\n".join([*_fault_rows(), "", *_table(clients, results), ""])
        + "\n".join([*_failures(clients, results), ""])
    )


def _fault_rows() -> Iterator[str]:
    for name, meaning in _FAULTS.items():
        dialects = [dialect for dialect in DIALECTS if name in quirk_names(dialect, streamed=True)]
        only = "" if name in quirk_names(dialects[0], streamed=False) else ", streamed"
        yield f"| {name} | {meaning} | {', '.join(dialects)}{only} |"


def _table(clients: Sequence[Client], results: Mapping[str, Result]) -> Iterator[str]:
    yield f"| client | dialect | {' | '.join(CELLS)} |"
    yield f"|---|---|{'---|' * len(CELLS)}"
    for client in clients:
        if client.name in results:
            cells = [_cell(results[client.name], cell) for cell in CELLS]
            yield f"| {client.name} | {client.dialect} | {' | '.join(cells)} |"


def _cell(result: Result, cell: str) -> str:
    if cell not in result.passed:
        return ""
    passed = result.passed[cell]
    failed = sum(one.cell == cell for one in result.failures)
    return f"{passed}/{passed + failed}"


def _failures(clients: Sequence[Client], results: Mapping[str, Result]) -> Iterator[str]:
    failed = [one for one in clients if one.name in results and results[one.name].failures]
    if failed:
        yield from ["", "## Runs that failed"]
    for client in failed:
        yield from ["", f"**{client.name}**", ""]
        if client.fault is not None:
            yield from [client.fault.strip(), ""]
        groups: dict[tuple[str, str, str | None], list[str]] = {}
        for one in results[client.name].failures:
            groups.setdefault((one.cell, one.error, one.alone), []).append(one.quirk)
        for (cell, error, alone), quirks in groups.items():
            yield f"- {cell}, {', '.join(quirks)}: {_shown(error)}"
            if alone is not None:
                yield f"  - Without the gateway and with a canonical backend: {_shown(alone)}"


def _shown(error: str) -> str:
    line = " ".join(error.split()).replace("`", "'")
    return f"`{line[:_MAX_ERROR]}{'…' if len(line) > _MAX_ERROR else ''}`"
