"""The fields of the events, items, parts and response objects of a valid Responses stream.

A type of event, item or part that is in no table is invalid. The response object has the fields
that Open Responses requires. The tables also contain what only OpenAI allows: custom tools,
built-in tools, reasoning text, and instructions as items.
"""

import msgspec

from adapters.conformance import (
    BOOLEAN,
    EMPTY,
    EMPTY_LIST,
    FILLED,
    INTEGER,
    LIST,
    NUMBER,
    OBJECT,
    STRING,
    Fields,
    JsonShape,
    either,
    list_of,
    nullable,
    object_of,
    one_of,
    optional,
)

# The response object

ERROR: Fields = {"code": STRING, "message": STRING}
USAGE: Fields = {
    "input_tokens": INTEGER,
    "input_tokens_details": object_of({"cached_tokens": INTEGER}),
    "output_tokens": INTEGER,
    "output_tokens_details": object_of({"reasoning_tokens": INTEGER}),
    "total_tokens": INTEGER,
}
RESPONSE: Fields = {
    "id": FILLED,
    "object": one_of("response"),
    "created_at": NUMBER,
    "completed_at": nullable(NUMBER),
    "incomplete_details": nullable(object_of({"reason": STRING})),
    "model": STRING,
    "previous_response_id": nullable(STRING),
    "instructions": nullable(either(STRING, LIST)),
    "error": nullable(object_of(ERROR)),
    "tools": list_of(OBJECT),
    "tool_choice": either(STRING, OBJECT),
    "truncation": STRING,
    "parallel_tool_calls": BOOLEAN,
    "text": OBJECT,
    "top_p": NUMBER,
    "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER,
    "top_logprobs": INTEGER,
    "temperature": NUMBER,
    "reasoning": nullable(object_of({"effort": nullable(STRING), "summary": nullable(STRING)})),
    "usage": nullable(object_of(USAGE)),
    "max_output_tokens": nullable(INTEGER),
    "max_tool_calls": nullable(INTEGER),
    "store": BOOLEAN,
    "background": BOOLEAN,
    "service_tier": STRING,
    "safety_identifier": nullable(STRING),
    "prompt_cache_key": nullable(STRING),
}
_BEGIN_RESPONSE: Fields = {**RESPONSE, "output": EMPTY_LIST}
_END_RESPONSE: Fields = {**RESPONSE, "output": list_of(OBJECT)}
SNAPSHOTS: dict[str, Fields] = {
    "response.created": {**_BEGIN_RESPONSE, "status": one_of("in_progress", "queued")},
    "response.queued": {**_BEGIN_RESPONSE, "status": one_of("queued")},
    "response.in_progress": {**_BEGIN_RESPONSE, "status": one_of("in_progress")},
    "response.completed": {**_END_RESPONSE, "status": one_of("completed")},
    "response.incomplete": {
        **_END_RESPONSE,
        "status": one_of("incomplete"),
        "incomplete_details": object_of({"reason": STRING}),
    },
    "response.failed": {**_END_RESPONSE, "status": one_of("failed"), "error": object_of(ERROR)},
}

# Items and parts

_CALL: Fields = {"id": FILLED, "call_id": FILLED, "name": FILLED}
_MESSAGE: Fields = {"id": FILLED, "role": one_of("assistant")}
_ANY_ITEM: Fields = {"id": FILLED, "call_id": optional(nullable(STRING))}
_BEGIN_STATUS = one_of("in_progress")
_END_STATUS = one_of("completed", "incomplete")
# A call by a program of the model is in progress until its output arrives.
_CALL_END_STATUS = one_of("completed", "incomplete", "in_progress")
# Open Responses allows other item types with a prefix ("slug:name").
FOREIGN_ITEM = _ANY_ITEM
_OTHER_ITEMS: dict[str, Fields] = dict.fromkeys(
    (
        "function_call_output",
        "custom_tool_call_output",
        "tool_search_call",
        "tool_search_output",
        "additional_tools",
        "compaction",
        "program",
        "program_output",
        "file_search_call",
        "web_search_call",
        "computer_call",
        "computer_call_output",
        "image_generation_call",
        "code_interpreter_call",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
    ),
    _ANY_ITEM,
)
ADDED_ITEMS: dict[str, Fields] = {
    **_OTHER_ITEMS,
    "message": {**_MESSAGE, "status": _BEGIN_STATUS, "content": EMPTY_LIST},
    "function_call": {**_CALL, "status": _BEGIN_STATUS, "arguments": EMPTY},
    "custom_tool_call": {**_CALL, "status": optional(_BEGIN_STATUS), "input": EMPTY},
    "reasoning": {
        "id": FILLED,
        "status": optional(_BEGIN_STATUS),
        "summary": EMPTY_LIST,
        "content": optional(nullable(EMPTY_LIST)),
    },
}
DONE_ITEMS: dict[str, Fields] = {
    **_OTHER_ITEMS,
    "message": {**_MESSAGE, "status": _END_STATUS, "content": list_of(OBJECT)},
    "function_call": {**_CALL, "status": _CALL_END_STATUS, "arguments": STRING},
    "custom_tool_call": {**_CALL, "status": optional(_CALL_END_STATUS), "input": STRING},
    "reasoning": {
        "id": FILLED,
        "status": optional(_END_STATUS),
        "summary": list_of(OBJECT),
        "content": optional(nullable(list_of(OBJECT))),
    },
}
# The field of the text of each type of part.
PART_TEXT = {
    "output_text": "text",
    "refusal": "refusal",
    "reasoning_text": "text",
    "summary_text": "text",
}
ADDED_PARTS: dict[str, Fields] = {
    **{part: {text: EMPTY} for part, text in PART_TEXT.items()},
    # The openai package for JavaScript appends annotations to this list.
    "output_text": {"text": EMPTY, "annotations": EMPTY_LIST},
}
DONE_PARTS: dict[str, Fields] = {
    **{part: {text: STRING} for part, text in PART_TEXT.items()},
    "output_text": {"text": STRING, "annotations": list_of(OBJECT)},
}

# Events


class Event(msgspec.Struct, frozen=True):
    """The fields of one type of event, and the streamed field that it belongs to."""

    fields: Fields
    step: str
    # The streamed field: "content", "summary", or "body" for the text of a call.
    field: str = ""
    # The type of the part, or of an item without parts.
    owner: str = ""
    # The field with the complete text, in the event that ends a text.
    text: str = ""


_OUTPUT: Fields = {"output_index": INTEGER}
_ITEM: Fields = {"item_id": FILLED, **_OUTPUT}
_DELTA: Fields = {"delta": STRING, "logprobs": optional(LIST)}


def _parts(prefix: str, field: str) -> dict[str, Event]:
    fields: Fields = {**_ITEM, f"{field}_index": INTEGER, "part": OBJECT}
    return {
        f"{prefix}.added": Event(fields, "opened", field),
        f"{prefix}.done": Event(fields, "closed", field),
    }


def _texts(prefix: str, field: str, owner: str, text: str) -> dict[str, Event]:
    index: Fields = {} if field == "body" else {f"{field}_index": INTEGER}
    written: Fields = {
        **_ITEM,
        **index,
        text: STRING,
        "logprobs": optional(LIST),
        "name": optional(STRING),  # the name of a call, which only some releases of OpenAI require
    }
    return {
        f"{prefix}.delta": Event({**_ITEM, **index, **_DELTA}, "delta", field, owner),
        f"{prefix}.done": Event(written, "written", field, owner, text),
    }


def _progress(owner: str, *states: str) -> dict[str, Event]:
    return {f"response.{owner}.{state}": Event(_ITEM, "progress", owner=owner) for state in states}


def _shell(name: str, owner: str, place: Fields, **field: JsonShape) -> dict[str, Event]:
    fields: Fields = {**place, "command_index": INTEGER, **field}
    return {f"response.{name}": Event(fields, "progress", owner=owner)}


EVENTS: dict[str, Event] = {
    **{
        name: Event({"response": object_of(fields)}, name.removeprefix("response."))
        for name, fields in SNAPSHOTS.items()
    },
    "error": Event({}, "error"),
    "keepalive": Event({}, "keepalive"),
    "response.output_item.added": Event({"output_index": INTEGER, "item": OBJECT}, "added"),
    "response.output_item.done": Event({"output_index": INTEGER, "item": OBJECT}, "done"),
    **_parts("response.content_part", "content"),
    **_parts("response.reasoning_summary_part", "summary"),
    **_texts("response.output_text", "content", "output_text", "text"),
    **_texts("response.refusal", "content", "refusal", "refusal"),
    **_texts("response.reasoning_text", "content", "reasoning_text", "text"),
    # The name of reasoning_text in Open Responses.
    **_texts("response.reasoning", "content", "reasoning_text", "text"),
    **_texts("response.reasoning_summary_text", "summary", "summary_text", "text"),
    "response.output_text.annotation.added": Event(
        {**_ITEM, "content_index": INTEGER, "annotation_index": INTEGER, "annotation": OBJECT},
        "annotated",
        "content",
        "output_text",
    ),
    **_texts("response.function_call_arguments", "body", "function_call", "arguments"),
    **_texts("response.custom_tool_call_input", "body", "custom_tool_call", "input"),
    **_texts("response.mcp_call_arguments", "body", "mcp_call", "arguments"),
    **_texts("response.code_interpreter_call_code", "body", "code_interpreter_call", "code"),
    **_progress("mcp_call", "in_progress", "completed", "failed"),
    **_progress("mcp_list_tools", "in_progress", "completed", "failed"),
    **_progress("file_search_call", "in_progress", "searching", "completed"),
    **_progress("web_search_call", "in_progress", "searching", "completed"),
    **_progress("code_interpreter_call", "in_progress", "interpreting", "completed"),
    **_progress("image_generation_call", "in_progress", "generating", "completed"),
    "response.image_generation_call.partial_image": Event(
        {**_ITEM, "partial_image_b64": STRING, "partial_image_index": INTEGER},
        "progress",
        owner="image_generation_call",
    ),
    **_shell("shell_call_command.added", "shell_call", _OUTPUT, command=STRING),
    **_shell("shell_call_command.delta", "shell_call", _OUTPUT, delta=STRING),
    **_shell("shell_call_command.done", "shell_call", _OUTPUT, command=STRING),
    **_shell("shell_call_output_content.delta", "shell_call_output", _ITEM, delta=OBJECT),
    **_shell("shell_call_output_content.done", "shell_call_output", _ITEM, output=LIST),
    **_progress("compaction", "compacting"),
    "response.audio.delta": Event({"delta": STRING}, "audio"),
    "response.audio.done": Event({}, "audio"),
    "response.audio.transcript.delta": Event({"delta": STRING}, "audio"),
    "response.audio.transcript.done": Event({}, "audio"),
}
_ERROR_EVENT: Fields = {**ERROR, "code": nullable(STRING), "param": nullable(STRING)}
# The form of OpenAI's types and that of Open Responses; an event may have both.
ERROR_FORMS: tuple[Fields, ...] = (
    _ERROR_EVENT,
    {"error": object_of({"type": STRING, **_ERROR_EVENT})},
)
