"""Lays out what was measured: a row for each measure, a column for each process, and the aims."""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from tests.benchmarks.measure import Plan, Record

GATEWAY, FLOOR, USUAL = "gateway", "relay", "litestar_app"
_TITLES = {GATEWAY: "gateway", FLOOR: "pass-through", USUAL: "litestar+httpx"}
_SECOND = 1_000_000
_KILO, _MEGA = 1000, 1_000_000

Compare = Callable[[float, float], str]


def _ratio(ours: float, floor: float) -> str:
    return f"{ours / floor:.1f} x"


def _added(ours: float, floor: float) -> str:
    return f"{ours - floor:+,.0f} µs"


class Row(Struct, frozen=True):
    """One measure of each process; its title may tell how large the load was."""

    title: str
    value: Callable[[Record, Plan], float]
    # What there is to say of the gateway beside the pass-through.
    compare: Compare | None = None
    # What we want to reach first, and then.
    aim: str = ""
    digits: int = 0


ROWS = (
    Row(
        "unary, request of 5 kB: CPU µs each",
        lambda record, plan: record.processor(plan.unary),
        _ratio,
        "35 x, then 15 x",
        1,
    ),
    Row("  requests per CPU second", lambda record, plan: _SECOND / record.processor(plan.unary)),
    Row(
        "burst of {plan.short.events:,} events: CPU µs per event",
        lambda record, plan: record.per_event(plan.short),
        _ratio,
        "28 µs, then 12 µs",
        2,
    ),
    Row("  streams per CPU second", lambda record, plan: _SECOND / record.processor(plan.short)),
    Row("  events per CPU second", lambda record, plan: _SECOND / record.per_event(plan.short)),
    Row(
        "stream of {plan.middle.events:,} events: CPU µs per event",
        lambda record, plan: record.per_event(plan.middle),
        _ratio,
        "10 µs, then 6 µs",
        2,
    ),
    Row("  events per CPU second", lambda record, plan: _SECOND / record.per_event(plan.middle)),
    Row(
        "stream of {plan.long.events:,} events: CPU µs per event",
        lambda record, plan: record.per_event(plan.long),
        _ratio,
        digits=2,
    ),
    Row(
        "  of what an event of {plan.middle.events:,} costs",
        lambda record, plan: record.per_event(plan.long) / record.per_event(plan.middle),
        aim="flat: about 1",
        digits=2,
    ),
    Row(
        "{plan.paced.calls} paced streams: CPU µs per event",
        lambda record, plan: record.per_event(plan.paced),
        _ratio,
        "4 x, then 2.2 x",
        1,
    ),
    Row(
        "  request to first event, µs",
        lambda record, plan: record.first_event(plan.paced),
        _added,
    ),
    Row("  an event on its way, µs", lambda record, plan: record.delay(plan.paced), _added),
    Row("memory, MB", lambda record, _: record.before / _MEGA, digits=1),
    Row(
        "  with {plan.idle:,} idle streams, MB",
        lambda record, _: record.during / _MEGA,
        aim="150 MB, then 100 MB",
        digits=1,
    ),
    Row(
        "  for each of them, kB",
        lambda record, plan: (record.during - record.before) / plan.idle / _KILO,
        digits=1,
    ),
)


def table(records: Mapping[str, Record], plan: Plan, start: float) -> Iterator[str]:
    """Give the lines of one pair; `start` is of the gateway alone."""
    heads = "".join(f"{_TITLES[name]:>16}" for name in records)
    yield f"{'':<42}{heads}{'difference':>12}  aim"
    for row in ROWS:
        yield _line(row, records, plan).rstrip()
    rest = " " * (16 * (len(records) - 1) + 12)
    yield f"{'start to first answer, s':<42}{start:>16.2f}{rest}  1.5 s, then 0.7 s"


def _line(row: Row, records: Mapping[str, Record], plan: Plan) -> str:
    values = {name: row.value(record, plan) for name, record in records.items()}
    cells = "".join(f"{value:>16,.{row.digits}f}" for value in values.values())
    compared = "" if row.compare is None else row.compare(values[GATEWAY], values[FLOOR])
    return f"{row.title.format(plan=plan):<42}{cells}{compared:>12}  {row.aim}"
