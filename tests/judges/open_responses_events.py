"""Open Responses: what each event of a stream must hold."""

from collections.abc import Mapping

from tests.judges.open_responses_shapes import ANNOTATION, ITEM, LOGPROBS, PART, RESPONSE
from tests.judges.shapes import Check, beyond, integer, nullable, record, text

ITEM_PLACE: dict[str, Check] = {"item_id": text, "output_index": integer}
CONTENT_PLACE: dict[str, Check] = {**ITEM_PLACE, "content_index": integer}
SUMMARY_PLACE: dict[str, Check] = {**ITEM_PLACE, "summary_index": integer}


def _event(
    place: Mapping[str, Check],
    optional: Mapping[str, Check] | None = None,
    **fields: Check,
) -> Check:
    return record(
        {"type": text, "sequence_number": integer, **place, **fields},
        {"obfuscation": text, **(optional or {})},
    )


ERROR = record(
    {"type": text, "code": nullable(text), "message": text, "param": nullable(text)},
)
# The specification lets `item` be null; the SDKs do not.
WHOLE_ITEM = _event({"output_index": integer}, item=ITEM)

EVENTS: dict[str, Check] = {
    "response.created": _event({}, response=RESPONSE),
    "response.queued": _event({}, response=RESPONSE),
    "response.in_progress": _event({}, response=RESPONSE),
    "response.completed": _event({}, response=RESPONSE),
    "response.failed": _event({}, response=RESPONSE),
    "response.incomplete": _event({}, response=RESPONSE),
    "response.output_item.added": WHOLE_ITEM,
    "response.output_item.done": WHOLE_ITEM,
    "response.content_part.added": _event(CONTENT_PLACE, part=PART),
    "response.content_part.done": _event(CONTENT_PLACE, part=PART),
    "response.output_text.delta": _event(CONTENT_PLACE, {"logprobs": LOGPROBS}, delta=text),
    "response.output_text.done": _event(CONTENT_PLACE, {"logprobs": LOGPROBS}, text=text),
    "response.output_text.annotation.added": _event(
        CONTENT_PLACE, annotation_index=integer, annotation=nullable(ANNOTATION)
    ),
    "response.refusal.delta": _event(CONTENT_PLACE, delta=text),
    "response.refusal.done": _event(CONTENT_PLACE, refusal=text),
    "response.reasoning.delta": _event(CONTENT_PLACE, delta=text),
    "response.reasoning.done": _event(CONTENT_PLACE, text=text),
    "response.reasoning_text.delta": beyond("reasoning_text", _event(CONTENT_PLACE, delta=text)),
    "response.reasoning_text.done": beyond("reasoning_text", _event(CONTENT_PLACE, text=text)),
    "response.reasoning_summary_part.added": _event(SUMMARY_PLACE, part=PART),
    "response.reasoning_summary_part.done": _event(SUMMARY_PLACE, part=PART),
    "response.reasoning_summary_text.delta": _event(SUMMARY_PLACE, delta=text),
    "response.reasoning_summary_text.done": _event(SUMMARY_PLACE, text=text),
    "response.function_call_arguments.delta": _event(ITEM_PLACE, delta=text),
    "response.function_call_arguments.done": _event(ITEM_PLACE, arguments=text),
    "response.custom_tool_call_input.delta": beyond("custom_tools", _event(ITEM_PLACE, delta=text)),
    "response.custom_tool_call_input.done": beyond("custom_tools", _event(ITEM_PLACE, input=text)),
    # Nested; the flat fields that OpenAI's types want may stand beside it.
    "error": _event({}, error=ERROR),
}
