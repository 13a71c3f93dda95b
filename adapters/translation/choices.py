"""Translate several replies of a backend that gives one choice to one reply with all choices."""

import re
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.dialect import BaseStreamWriter, ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.accumulator import to_events
from adapters.ir.events import Event
from adapters.ir.types import Request
from adapters.sse import BYTE_ORDER_MARK
from adapters.stages.block_order import BlockSequencer
from adapters.translation.choice_streams import (
    ChoiceMerger,
    ChoicesStream,
    ChoiceStream,
    ChoiceWriter,
)
from adapters.translation.reply import ReplyTranslator, invalid_reply, reply_stages
from adapters.translation.request import BackendRequest, ReplyPlan
from adapters.translation.streams import ReplyCollector, TranslatedStream
from adapters.wire.error_body import redact_errors, redact_text

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_INTEGER: Final = re.compile(rb"-?\d{1,18}")


def choice_bodies(request: BackendRequest) -> list[bytes]:
    """Return the body for each choice; they differ only in the seed, if there is one."""
    body, count = request.body, request.reply_plan.requests
    if count == 1:
        return [body]
    fields = _FIELDS.decode(body)
    seed = bytes(fields.get("seed", b""))
    if not _INTEGER.fullmatch(seed):
        return [body] * count
    first = int(seed)
    seeds = (Raw(b"%d" % (first + number)) for number in range(1, count))
    return [body, *(msgspec.json.encode(fields | {"seed": one}) for one in seeds)]


class ChoicesTranslator(ReplyTranslator):
    """Translates the replies to `plan.requests` equal requests to one reply.

    The replies may arrive side by side: bytes belong to the selected choice. Empty bytes are the
    end of its reply.
    """

    def __init__(self, plan: ReplyPlan) -> None:
        super().__init__(plan)
        writer: BaseStreamWriter | ReplyCollector
        if plan.client_streams:
            writer = self._open_writer(self._context)
        else:
            writer = self._collector = ReplyCollector()
        merger = ChoiceMerger(writer, plan.requests)
        choices = [self._open_choice(merger, number) for number in range(plan.requests)]
        self._choices = self._stream = ChoicesStream(choices, merger)

    def _open_choice(self, merger: ChoiceMerger, number: int) -> ChoiceStream:
        """Return the translation of one reply, as for a request with one choice."""
        plan = replace(self.plan, request=_with_one_choice(self.plan.request))
        context = replace(self._context, request=plan.request)
        reader_context = replace(
            self._reader_context, request=_with_one_choice(self._reader_context.request)
        )
        stages = self._collect_results(reply_stages(plan, context))
        if plan.client_streams:
            stages.append(BlockSequencer(plan.request))
        writer = ChoiceWriter(merger, number)
        stream = TranslatedStream(plan, reader_context, stages, writer)
        return ChoiceStream(stream, lambda body: self._read_whole(body, reader_context))

    def _read_whole(self, body: bytes, context: ReplyContext) -> list[Event]:
        """Read a reply that is not a stream."""
        body = redact_errors(body.removeprefix(BYTE_ORDER_MARK), self.plan.options.redact)
        try:
            reply = self.plan.options.backend.read_reply(body, context)
        except InvalidRequestError as error:
            raise invalid_reply(error) from None
        return [*to_events(reply, self.losses if self.plan.client_streams else None)]

    def select(self, choice: int) -> None:
        """Select the choice that the next bytes belong to."""
        self._choices.selected = choice

    def expect_stream(self) -> None:
        """Read the reply of the selected choice as a stream, whatever it begins with."""
        self._choices.choice.expect_stream()

    def fail_choice(self, status: int, body: bytes) -> None:
        """End the reply with an HTTP error of the backend."""
        options = self.plan.options
        error = options.backend.read_error(status, redact_text(body, options.redact))
        self._choices.fail_choice(error)

    @property
    def choice_cut(self) -> bool:
        """Whether the reply of the selected choice ended before that of the backend."""
        return self._choices.choice.stream.cut


def _with_one_choice(request: Request) -> Request:
    return replace(request, choices=None)
