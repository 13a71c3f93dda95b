"""Conversion of all records of an input, by several processes if it is large."""

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing.process import BaseProcess
from threading import Thread

import msgspec
from msgspec import Struct, field

from adapters import DragomanError, Loss
from adapters.losses import without_indices
from gateway.migration.data.input import Batch, Place
from gateway.migration.data.records import convert_record
from gateway.migration.data.validation import Target

# The batches that are read ahead for each process.
_BATCHES_AHEAD = 2
# Fewer batches are converted in less time than processes need to start.
_FEW_BATCHES = 8
# The kinds of losses that are counted; paths contain names of the input, which have no limit.
_MAX_LOSS_KINDS = 1000


class Failure(Struct, frozen=True):
    """A record that was not converted."""

    place: Place
    reason: str


class ConvertedBatch(Struct, frozen=True):
    """The converted records of a batch, without those that failed."""

    records: list[bytes]
    failures: list[Failure]
    losses: list[tuple[Place, Loss]]


_CONVERTED = msgspec.msgpack.Decoder(ConvertedBatch)


class Totals(Struct):
    """What was converted so far."""

    converted: int = 0
    failed: int = 0
    # The losses without the indices in their paths; if there are too many kinds, only the first.
    losses: Counter[Loss] = field(default_factory=Counter[Loss])
    other_losses: int = 0

    def add(self, batch: ConvertedBatch) -> None:
        """Count a batch."""
        self.converted += len(batch.records)
        self.failed += len(batch.failures)
        for _, loss in batch.losses:
            general = without_indices(loss)
            if general in self.losses or len(self.losses) < _MAX_LOSS_KINDS:
                self.losses[general] += 1
            else:
                self.other_losses += 1


def convert_batch(batch: Batch, target: Target) -> ConvertedBatch:
    """Convert the records of one batch."""
    records: list[bytes] = []
    failures: list[Failure] = []
    losses: list[tuple[Place, Loss]] = []
    for place, record in zip(batch.places(), batch.records, strict=False):
        if not record.strip() and place.record is None:
            # An empty line.
            continue
        try:
            converted = convert_record(record.strip(), target)
        except DragomanError as error:
            failures.append(Failure(place, str(error)))
            continue
        except Exception as error:  # noqa: BLE001 - one record must not end a long conversion
            failures.append(Failure(place, f"internal error: {error!r}"))
            continue
        records.append(converted.body)
        losses += [(place, loss) for loss in converted.losses]
    return ConvertedBatch(records, failures, losses)


def convert_batches(
    batches: Iterable[Batch], target: Target, processes: int
) -> Iterator[ConvertedBatch]:
    """Yield the converted batches in their order; several are converted by processes."""
    batches = iter(batches)
    head = list(islice(batches, _FEW_BATCHES))
    if processes == 1 or len(head) < _FEW_BATCHES:
        yield from (convert_batch(batch, target) for batch in chain(head, batches))
        return
    # A fresh interpreter is safe wherever this is called, also beside threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _prepare_process) as pool:
        waiting = deque[Future[bytes]]()
        try:
            for batch in chain(head, batches):
                waiting.append(pool.submit(_convert_encoded, batch, target))
                if len(waiting) > processes * _BATCHES_AHEAD:
                    yield _CONVERTED.decode(waiting.popleft().result())
            while waiting:
                yield _CONVERTED.decode(waiting.popleft().result())
        except BrokenProcessPool:
            message = "a process of the conversion was ended; try again with fewer --jobs"
            raise DragomanError(None, message) from None
        finally:
            for future in waiting:
                future.cancel()


def _convert_encoded(batch: Batch, target: Target) -> bytes:
    """Return a converted batch as MessagePack; pickling its losses takes much longer."""
    return msgspec.msgpack.encode(convert_batch(batch, target))


def _prepare_process() -> None:
    """Leave Ctrl-C to the process that started this one, and end with it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
