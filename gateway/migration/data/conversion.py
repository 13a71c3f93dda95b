"""Conversion of all records of an input, by several processes if it is large."""

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from itertools import chain, islice

from msgspec import Struct, field

from adapters import DragomanError, Loss
from adapters.losses import without_indices
from gateway.migration.data.input import Batch
from gateway.migration.data.records import Target, convert_record

# The batches that are read ahead for each process.
_BATCHES_AHEAD = 2


class Failure(Struct, frozen=True):
    """A record that was not converted."""

    number: int
    reason: str


class ConvertedBatch(Struct, frozen=True):
    """The converted records of a batch, without those that failed."""

    records: list[bytes]
    failures: list[Failure]
    # The losses by the number of their record, without those that are reversible.
    losses: list[tuple[int, Loss]]


class Totals(Struct):
    """What was converted so far."""

    converted: int = 0
    failed: int = 0
    # The losses without the indices in their paths.
    losses: Counter[Loss] = field(default_factory=Counter[Loss])

    def add(self, batch: ConvertedBatch) -> None:
        """Count a batch."""
        self.converted += len(batch.records)
        self.failed += len(batch.failures)
        self.losses.update(without_indices(loss) for _, loss in batch.losses)


def convert_batch(batch: Batch, target: Target) -> ConvertedBatch:
    """Convert the records of one batch."""
    records: list[bytes] = []
    failures: list[Failure] = []
    losses: list[tuple[int, Loss]] = []
    for number, record in enumerate(batch.records, batch.first):
        if not record.strip():
            continue
        try:
            converted = convert_record(record.strip(), target)
        except DragomanError as error:
            failures.append(Failure(number, str(error)))
            continue
        records.append(converted.body)
        losses += [(number, loss) for loss in converted.losses if loss.severity != "adapted"]
    return ConvertedBatch(records, failures, losses)


def convert_batches(
    batches: Iterable[Batch], target: Target, processes: int
) -> Iterator[ConvertedBatch]:
    """Yield the converted batches in their order; several are converted by processes."""
    batches = iter(batches)
    head = list(islice(batches, 2))
    convert = partial(convert_batch, target=target)
    if processes == 1 or len(head) == 1:
        yield from map(convert, chain(head, batches))
        return
    # A fresh interpreter is safe wherever this is called, also beside threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _ignore_interrupt) as pool:
        waiting = deque[Future[ConvertedBatch]]()
        try:
            for batch in chain(head, batches):
                waiting.append(pool.submit(convert, batch))
                if len(waiting) > processes * _BATCHES_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _ignore_interrupt() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
