"""Open Responses: what a response, its items, its parts and the events of a stream must hold.

The specification's validators want more than OpenAI's own types do: every setting echoed, few of
them null, and absence instead of null inside items.
"""

from tests.judges.shapes import (
    Allowed,
    Check,
    anything,
    array,
    beyond,
    either,
    flag,
    integer,
    matching,
    null,
    nullable,
    number,
    record,
    tagged,
    text,
    word,
)

STATUS = word("in_progress", "completed", "incomplete")
# The maximum is the specification's. It also limits the characters of function names, not those
# of call ids.
CALL_ID = matching(r"(?s).{1,64}", "a call id of 1 to 64 characters")
FUNCTION_NAME = either(
    matching(r"[a-zA-Z0-9_-]{1,64}", "a function name of 1 to 64 of [a-zA-Z0-9_-]"),
    "long_names",
    matching(r"[a-zA-Z0-9_-]{1,128}", "a function name of 1 to 128 of [a-zA-Z0-9_-]"),
)

# A token's bytes are optional to the SDKs; here they are not, and may not be null.
TOKEN = {"token": text, "logprob": number, "bytes": array(integer)}
LOGPROBS = array(record(**TOKEN, top_logprobs=array(record(**TOKEN))))

ANNOTATION = tagged(
    url_citation=record(url=text, start_index=integer, end_index=integer, title=text),
    file_citation=beyond("citations", anything),
    container_file_citation=beyond("citations", anything),
    file_path=beyond("citations", anything),
)

INPUT_PARTS = {
    "input_text": record(text=text),
    "input_image": record(image_url=nullable(text), detail=word("low", "high", "auto")),
    "input_file": record({"filename": text, "file_url": text}),
}
PART = tagged(
    **INPUT_PARTS,
    input_video=record(video_url=text),
    output_text=record({"logprobs": LOGPROBS}, text=text, annotations=array(ANNOTATION)),
    text=record(text=text),
    summary_text=record(text=text),
    reasoning_text=record(text=text),
    refusal=record(refusal=text),
)


def _output(value: object, at: str, allowed: Allowed) -> None:
    if not isinstance(value, str):
        array(tagged(**INPUT_PARTS))(value, at, allowed)


CUSTOM_CALL = record(id=text, call_id=CALL_ID, name=text, input=text)
CUSTOM_OUTPUT = record(id=text, call_id=CALL_ID, output=_output)
# Optional fields may be left out but not be null: phase, content, encrypted_content.
ITEM = tagged(
    message=record(
        {"phase": word("commentary", "final_answer")},
        id=text,
        status=STATUS,
        role=word("user", "assistant", "system", "developer"),
        content=array(PART),
    ),
    function_call=record(
        id=text, call_id=CALL_ID, name=FUNCTION_NAME, arguments=text, status=STATUS
    ),
    function_call_output=record(id=text, call_id=CALL_ID, output=_output, status=STATUS),
    reasoning=record(
        {"content": array(PART), "encrypted_content": text}, id=text, summary=array(PART)
    ),
    compaction=record({"created_by": text}, id=text, encrypted_content=text),
    custom_tool_call=beyond("custom_tools", CUSTOM_CALL),
    custom_tool_call_output=beyond("custom_tools", CUSTOM_OUTPUT),
)

NAMED_CUSTOM_TOOL = beyond("custom_tools", record(name=text))
TOOL = tagged(
    function=record(
        name=text, description=nullable(text), parameters=nullable(record()), strict=nullable(flag)
    ),
    custom=NAMED_CUSTOM_TOOL,
)
CHOICE_WORD = word("none", "auto", "required")
NAMED_CHOICES = {"function": record({"name": text}), "custom": NAMED_CUSTOM_TOOL}
CHOICE = tagged(
    **NAMED_CHOICES, allowed_tools=record(mode=CHOICE_WORD, tools=array(tagged(**NAMED_CHOICES)))
)


def _tool_choice(value: object, at: str, allowed: Allowed) -> None:
    (CHOICE_WORD if isinstance(value, str) else CHOICE)(value, at, allowed)


FORMAT = tagged(
    text=record(),
    json_object=record(),
    json_schema=record(
        name=text,
        description=nullable(text),
        schema=either(null, "json_schema", record()),
        strict=flag,
    ),
)
EFFORTS = ("none", "low", "medium", "high", "xhigh")
REASONING = record(
    effort=nullable(either(word(*EFFORTS), "efforts", word(*EFFORTS, "minimal", "max"))),
    summary=nullable(word("concise", "detailed", "auto")),
)
USAGE = record(
    input_tokens=integer,
    output_tokens=integer,
    total_tokens=integer,
    input_tokens_details=record(cached_tokens=integer),
    output_tokens_details=record(reasoning_tokens=integer),
)

# Every key must be there, though many may be null.
RESPONSE = record(
    **dict.fromkeys(("id", "model", "service_tier"), text),
    **dict.fromkeys(("created_at", "top_logprobs"), integer),
    **dict.fromkeys(("top_p", "presence_penalty", "frequency_penalty", "temperature"), number),
    **dict.fromkeys(("parallel_tool_calls", "store", "background"), flag),
    **dict.fromkeys(("previous_response_id", "instructions"), nullable(text)),
    **dict.fromkeys(("safety_identifier", "prompt_cache_key"), nullable(text)),
    **dict.fromkeys(("completed_at", "max_output_tokens", "max_tool_calls"), nullable(integer)),
    object=word("response"),
    status=word("queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
    incomplete_details=nullable(record(reason=text)),
    output=array(ITEM),
    error=nullable(record(code=text, message=text)),
    tools=array(TOOL),
    tool_choice=_tool_choice,
    truncation=word("auto", "disabled"),
    text=record({"verbosity": word("low", "medium", "high")}, format=FORMAT),
    reasoning=nullable(REASONING),
    usage=nullable(USAGE),
    metadata=anything,
)

# The reply of `/responses/compact`.
COMPACTION = record(
    id=text, object=word("response.compaction"), created_at=integer, output=array(ITEM), usage=USAGE
)

ITEM_PLACE: dict[str, Check] = {"item_id": text, "output_index": integer}
CONTENT_PLACE = {**ITEM_PLACE, "content_index": integer}
SUMMARY_PLACE = {**ITEM_PLACE, "summary_index": integer}


def _event(optional: dict[str, Check] | None = None, /, **fields: Check) -> Check:
    always = {"type": text, "sequence_number": integer}
    return record({"obfuscation": text, **(optional or {})}, **always, **fields)


def _text_events(
    name: str, place: dict[str, Check], whole: str, optional: dict[str, Check] | None = None
) -> dict[str, Check]:
    """Return the events of a text, the last of which has all of it in the field `whole`."""
    return {
        f"response.{name}.delta": _event(optional, **place, delta=text),
        f"response.{name}.done": _event(optional, **{**place, whole: text}),
    }


def _around(name: str, event: Check) -> dict[str, Check]:
    return dict.fromkeys((f"response.{name}.added", f"response.{name}.done"), event)


REASONING_TEXT = _text_events("reasoning_text", CONTENT_PLACE, "text")
CUSTOM_INPUT = _text_events("custom_tool_call_input", ITEM_PLACE, "input")
# The specification lets `item` be null; the SDKs do not.
WHOLE_ITEM = _event(output_index=integer, item=ITEM)
ERROR = record(type=text, code=nullable(text), message=text, param=nullable(text))

EVENTS: dict[str, Check] = {
    **{
        f"response.{status}": _event(response=RESPONSE)
        for status in ("created", "queued", "in_progress", "completed", "failed", "incomplete")
    },
    **_around("output_item", WHOLE_ITEM),
    **_around("content_part", _event(**CONTENT_PLACE, part=PART)),
    **_around("reasoning_summary_part", _event(**SUMMARY_PLACE, part=PART)),
    **_text_events("output_text", CONTENT_PLACE, "text", {"logprobs": LOGPROBS}),
    "response.output_text.annotation.added": _event(
        **CONTENT_PLACE, annotation_index=integer, annotation=nullable(ANNOTATION)
    ),
    **_text_events("refusal", CONTENT_PLACE, "refusal"),
    **_text_events("reasoning", CONTENT_PLACE, "text"),
    **_text_events("reasoning_summary_text", SUMMARY_PLACE, "text"),
    **_text_events("function_call_arguments", ITEM_PLACE, "arguments"),
    **{name: beyond("reasoning_text", event) for name, event in REASONING_TEXT.items()},
    **{name: beyond("custom_tools", event) for name, event in CUSTOM_INPUT.items()},
    # Nested; the flat fields that OpenAI's types want may stand beside it.
    "error": _event(error=ERROR),
}
