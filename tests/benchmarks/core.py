"""The cost of translation, compared with decoding and encoding the same JSON.

    python -m tests.benchmarks.core [--quick]

Each of the nine pairs translates the same made-up conversations: the client's request for the
backend, the backend's stream for the client. The floor is measured in the same rounds on the same
bytes: msgspec decodes them into plain dicts and encodes those again, and nothing is translated or
framed. Microseconds are of the processor's time, which is steadier than the clock's on a machine
that does other things too; still they differ from machine to machine, and the ratios tell.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from platform import python_version
from statistics import median
from time import process_time_ns
from typing import Literal

import msgspec
from msgspec import Raw

import adapters
from adapters.dialect import ReplyContext
from adapters.ir import types as ir
from adapters.ir.events import Closed, Delta, Event, Finished, Opened, Started
from adapters.losses import Losses
from tests.exchange import Exchange

PAIRS = tuple(product(adapters.DIALECTS, adapters.DIALECTS))
SHORT = 64
# A backend that is fast, or a network that is slow, brings several events with one read.
EVENTS_PER_READ = 8

Kind = Literal["text", "arguments"]
Pair = tuple[str, str]

_MODEL = "gpt-5.5"
_WORDS = ("The ", "river ", "rose ", "by ", "12.5 ", "cm;\n", '"dry" ', "fields ", "größer ", "… ")

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()


# Input, which is made as IR and written by each dialect


def prose(seed: int, words: int) -> str:
    """Return a text that depends only on the arguments."""
    return "".join(_WORDS[(seed + number * 7 // 3) % len(_WORDS)] for number in range(words))


def make_request(tools: int, turns: int) -> ir.Request:
    """Make a conversation of an agent: questions, some with a picture, and calls in pairs."""
    items = [item for turn in range(turns) for item in _make_turn(turn)]
    return ir.Request(
        model=_MODEL,
        items=(ir.Message("system", (ir.Text(prose(1, 60)),)), *items),
        tools=tuple(map(_make_tool, range(tools))),
        max_output_tokens=4096,
        temperature=0.2,
        stream=True,
    )


def _make_tool(number: int) -> ir.FunctionTool:
    path = {"type": "string", "description": prose(number, 12)}
    depth = {"type": "integer", "minimum": 0, "enum": [0, 1, 2, 4]}
    schema = {
        "type": "object",
        "properties": {"path": path, "depth": depth, "labels": {"type": "array", "items": path}},
        "required": ["path"],
    }
    encoded = Raw(_ENCODER.encode(schema))
    return ir.FunctionTool(f"read_station_{number}", prose(number, 25), encoded, strict=False)


def _make_turn(turn: int) -> Iterator[ir.Item]:
    picture = ir.Image(f"https://example.org/gauges/{turn}.png", detail="low")
    question = ir.Text(prose(turn, 40))
    yield ir.Message("user", (question, picture) if turn % 3 == 0 else (question,))
    yield ir.Message("assistant", (ir.Text(prose(turn + 2, 20)),))
    for number in (2 * turn, 2 * turn + 1):
        arguments = f'{{"path":"stations/{number}.csv","depth":2,"labels":["a","\\u00e9"]}}'
        yield ir.ToolCall(f"call_{number:024}", f"read_station_{number % 3}", arguments)
    for number in (2 * turn, 2 * turn + 1):
        yield ir.ToolOutput(f"call_{number:024}", prose(number, 160))
    yield ir.Message("assistant", (ir.Text(prose(turn + 5, 60)),))


SIZES = {"5 kB": make_request(tools=3, turns=1), "140 kB": make_request(tools=24, turns=41)}


@cache
def body(dialect: str, size: str) -> bytes:
    return adapters.get_dialect(dialect).write_request(
        SIZES[size], adapters.Capabilities(), Losses(None)
    )


@cache
def frames(dialect: str, kind: Kind, count: int) -> tuple[bytes, ...]:
    """Write a stream as a backend of this dialect does, frame by frame."""
    around = ReplyContext(SIZES["5 kB"], adapters.deterministic_ids(), Losses(None))
    writer = adapters.get_dialect(dialect).write_stream(around)
    # The start and the end of the arguments are deltas too.
    words = count if kind == "text" else count - 2
    pieces = (_WORDS[number % len(_WORDS)] for number in range(words))
    events = make_events(kind, pieces, _MODEL, count)
    return tuple(frame for event in events for frame in writer.feed(event))


def make_events(kind: Kind, pieces: Iterable[str], model: str, tokens: int) -> Iterator[Event]:
    """Make the events of a reply with a delta for each piece, as text or within arguments."""
    yield Started("chatcmpl-benchmark", model, 1_700_000_000)
    if kind == "text":
        yield Opened(0, ir.Message("assistant"))
        yield from (Delta(0, "text", piece) for piece in pieces)
    else:
        yield Opened(0, ir.ToolCall("call_0001", "read_station_1"))
        escaped = (piece.replace('"', '\\"').replace("\n", "\\n") for piece in pieces)
        yield from (Delta(0, "arguments", piece) for piece in ('{"path":"', *escaped, '"}'))
    yield Closed(0)
    finish = ir.Finish("stop" if kind == "text" else "calls", "")
    yield Finished((finish,), ir.Usage(900, tokens, 900 + tokens))


@dataclass(frozen=True, slots=True)
class Work:
    """One column of one pair: what we do, and its floor."""

    pair: Pair
    column: str
    # Events in one run, and runs in one sample.
    events: int
    repeats: int
    ours: Callable[[], object]
    floor: Callable[[], object]
    samples: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def sample(self) -> None:
        scale = self.repeats * self.events
        ours, floor = _time(self.ours, self.repeats), _time(self.floor, self.repeats)
        self.samples.append((ours / scale, floor / scale))

    def cost(self) -> float:
        """Return our microseconds for one event or request."""
        return median(ours for ours, _ in self.samples)

    def least(self) -> float:
        """Return the microseconds of the JSON baseline."""
        return median(floor for _, floor in self.samples)


def _time(run: Callable[[], object], repeats: int) -> float:
    start = process_time_ns()
    for _ in range(repeats):
        run()
    return (process_time_ns() - start) / 1000


def _translate_stream(pair: Pair, reads: list[bytes]) -> None:
    exchange = Exchange(*pair, request=SIZES["5 kB"])
    stream = exchange.stream()
    for read in reads:
        stream.feed(read)
    stream.finish(started=True)


def _repeat_json(texts: list[bytes]) -> None:
    for text in texts:
        _ENCODER.encode(_DECODER.decode(text))


def request_work(pair: Pair, size: str, *, quick: bool) -> Work:
    given = body(pair[0], size)
    repeats = 1 if quick else max(1, 400_000 // len(given))
    floor = partial(_repeat_json, [given])
    return Work(pair, size, 1, repeats, lambda: Exchange(*pair).request(given), floor)


def stream_work(pair: Pair, kind: Kind, count: int, *, quick: bool) -> Work:
    whole = frames(pair[1], kind, count)
    starts = range(0, len(whole), EVENTS_PER_READ)
    reads = [b"".join(whole[start : start + EVENTS_PER_READ]) for start in starts]
    texts = [frame.partition(b"data: ")[2] for frame in whole if b"[DONE]" not in frame]
    repeats = 1 if quick else max(1, 4_000 // count)
    ours = partial(_translate_stream, pair, reads)
    return Work(pair, f"{count:,}", count, repeats, ours, partial(_repeat_json, texts))


def measure(works: list[Work], rounds: int) -> None:
    """Take the samples in rounds, so that a slow minute of the machine affects all alike."""
    for _ in range(rounds):
        for work in works:
            work.sample()


def table(title: str, works: list[Work]) -> Iterator[str]:
    """Yield the lines for one kind of work: a row per pair, three columns per size."""
    columns = list(dict.fromkeys(work.column for work in works))
    heads = "".join(f"{column:>13} {'floor':>8} {'ratio':>6}" for column in columns)
    yield ""
    yield f"{title:<36}{heads}"
    for client, backend in PAIRS:
        row = f"{client + ' client,':<18}{backend + ' backend':<18}"
        for work in works:
            if work.pair == (client, backend):
                row += f"{work.cost():13.2f} {work.least():8.2f} "
                row += f"{work.cost() / work.least():6.1f}"
        yield row


def flatness(title: str, works: list[Work]) -> str:
    """Return how the cost of an event depends on the length of the stream."""
    costs = {(work.pair, work.column): work.cost() for work in works}
    short, long = dict.fromkeys(work.column for work in works)
    grown = {pair: costs[pair, long] / costs[pair, short] for pair in PAIRS}
    steepest = max(grown, key=grown.__getitem__)
    return (
        f"Flatness, {title}: an event of {long} costs {median(grown.values()):.2f} times one of "
        f"{short} (median), at most {grown[steepest]:.2f} ({' client, '.join(steepest)} backend)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    quick: bool = parser.parse_args().quick
    rounds, long = (1, 640) if quick else (9, 10_000)
    kinds: tuple[Kind, ...] = ("text", "arguments")
    streams = {
        kind: [stream_work(p, kind, n, quick=quick) for p in PAIRS for n in (SHORT, long)]
        for kind in kinds
    }
    requests = [request_work(p, size, quick=quick) for p in PAIRS for size in SIZES]
    measure([*requests, *(work for works in streams.values() for work in works)], rounds)
    versions = f"Python {python_version()}, msgspec {msgspec.__version__}"
    lines = [
        f"{parser.prog}{' --quick' * quick}: {versions}",
        f"Processor microseconds: medians of {rounds} rounds, {EVENTS_PER_READ} events to a read",
        *table("Text deltas, per event", streams["text"]),
        *table("Argument deltas, per event", streams["arguments"]),
        *table("Requests, each", requests),
        "",
        flatness("text", streams["text"]),
        flatness("arguments", streams["arguments"]),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
