"""What a legal Responses stream is made of: its events, items, parts and response objects.

A table says which fields each must have and of which kind; an event type, item type or part type
that is in no table does not exist. The fields of the response object are those that Open Responses
demands. Where OpenAI itself says more than Open Responses allows (custom tools, built-in tools,
reasoning text, instructions as items), OpenAI's word counts.
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
    either,
    list_of,
    nullable,
    object_of,
    one_of,
    optional,
)

# --- the response object ----------------------------------------------------------------------

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
_BEGUN: Fields = {**RESPONSE, "output": EMPTY_LIST}
_OVER: Fields = {**RESPONSE, "output": list_of(OBJECT)}
SNAPSHOTS: dict[str, Fields] = {
    "response.created": {**_BEGUN, "status": one_of("in_progress", "queued")},
    "response.queued": {**_BEGUN, "status": one_of("queued")},
    "response.in_progress": {**_BEGUN, "status": one_of("in_progress")},
    "response.completed": {**_OVER, "status": one_of("completed")},
    "response.incomplete": {
        **_OVER,
        "status": one_of("incomplete"),
        "incomplete_details": object_of({"reason": STRING}),
    },
    "response.failed": {**_OVER, "status": one_of("failed"), "error": object_of(ERROR)},
}

# --- items and parts --------------------------------------------------------------------------

_CALL: Fields = {"id": FILLED, "call_id": FILLED, "name": FILLED}
_MESSAGE: Fields = {"id": FILLED, "role": one_of("assistant")}
_ANY_ITEM: Fields = {"id": FILLED, "call_id": optional(nullable(STRING))}
_BEGINS = one_of("in_progress")
_ENDS = one_of("completed", "incomplete")
# A call that a program of the model made goes on after it is done: it waits for its output.
_CALL_ENDS = one_of("completed", "incomplete", "in_progress")
# Open Responses lets others add item types under a prefix of their own ("slug:name").
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
    "message": {**_MESSAGE, "status": _BEGINS, "content": EMPTY_LIST},
    "function_call": {**_CALL, "status": _BEGINS, "arguments": EMPTY},
    "custom_tool_call": {**_CALL, "status": optional(_BEGINS), "input": EMPTY},
    "reasoning": {
        "id": FILLED,
        "status": optional(_BEGINS),
        "summary": EMPTY_LIST,
        "content": optional(nullable(EMPTY_LIST)),
    },
}
DONE_ITEMS: dict[str, Fields] = {
    **_OTHER_ITEMS,
    "message": {**_MESSAGE, "status": _ENDS, "content": list_of(OBJECT)},
    "function_call": {**_CALL, "status": _CALL_ENDS, "arguments": STRING},
    "custom_tool_call": {**_CALL, "status": optional(_CALL_ENDS), "input": STRING},
    "reasoning": {
        "id": FILLED,
        "status": optional(_ENDS),
        "summary": list_of(OBJECT),
        "content": optional(nullable(list_of(OBJECT))),
    },
}
ADDED_PARTS: dict[str, Fields] = {
    # The JavaScript helper puts annotations into this very list.
    "output_text": {"text": EMPTY, "annotations": EMPTY_LIST},
    "refusal": {"refusal": EMPTY},
    "reasoning_text": {"text": EMPTY},
    "summary_text": {"text": EMPTY},
}
DONE_PARTS: dict[str, Fields] = {
    "output_text": {"text": STRING, "annotations": list_of(OBJECT)},
    "refusal": {"refusal": STRING},
    "reasoning_text": {"text": STRING},
    "summary_text": {"text": STRING},
}
PART_TEXT = {
    "output_text": "text",
    "refusal": "refusal",
    "reasoning_text": "text",
    "summary_text": "text",
}

# --- events -----------------------------------------------------------------------------------


class Event(msgspec.Struct, frozen=True):
    """What one event type carries, and what it does to which lane of its item."""

    fields: Fields
    step: str
    lane: str = ""
    """Which text of the item it writes: "content", "summary", or "body" for a call's own text."""
    owner: str = ""
    """The part type that it belongs to, or the item type where there are no parts."""
    text: str = ""
    """The field that holds the whole text, on the event that ends it."""


_ITEM: Fields = {"item_id": FILLED, "output_index": INTEGER}
_DELTA: Fields = {"delta": STRING, "logprobs": optional(LIST)}


def _lifecycle() -> dict[str, Event]:
    return {
        name: Event({"response": object_of(fields)}, name.removeprefix("response."))
        for name, fields in SNAPSHOTS.items()
    }


def _parts(prefix: str, lane: str) -> dict[str, Event]:
    fields: Fields = {**_ITEM, f"{lane}_index": INTEGER, "part": OBJECT}
    return {
        f"{prefix}.added": Event(fields, "opened", lane),
        f"{prefix}.done": Event(fields, "closed", lane),
    }


def _texts(prefix: str, lane: str, owner: str, text: str) -> dict[str, Event]:
    index: Fields = {} if lane == "body" else {f"{lane}_index": INTEGER}
    written: Fields = {
        **_ITEM,
        **index,
        text: STRING,
        "logprobs": optional(LIST),
        "name": optional(STRING),  # of a call: only some releases of OpenAI's types have it
    }
    return {
        f"{prefix}.delta": Event({**_ITEM, **index, **_DELTA}, "delta", lane, owner),
        f"{prefix}.done": Event(written, "written", lane, owner, text),
    }


def _notes(owner: str, *states: str) -> dict[str, Event]:
    return {f"response.{owner}.{state}": Event(_ITEM, "noted", owner=owner) for state in states}


def _shell() -> dict[str, Event]:
    command: Fields = {"output_index": INTEGER, "command_index": INTEGER}
    output: Fields = {**_ITEM, "command_index": INTEGER}
    return {
        "response.shell_call_command.added": Event(
            {**command, "command": STRING}, "noted", owner="shell_call"
        ),
        "response.shell_call_command.delta": Event(
            {**command, "delta": STRING}, "noted", owner="shell_call"
        ),
        "response.shell_call_command.done": Event(
            {**command, "command": STRING}, "noted", owner="shell_call"
        ),
        "response.shell_call_output_content.delta": Event(
            {**output, "delta": OBJECT}, "noted", owner="shell_call_output"
        ),
        "response.shell_call_output_content.done": Event(
            {**output, "output": LIST}, "noted", owner="shell_call_output"
        ),
    }


EVENTS: dict[str, Event] = {
    **_lifecycle(),
    "error": Event({}, "error"),
    "keepalive": Event({}, "keepalive"),
    "response.output_item.added": Event({"output_index": INTEGER, "item": OBJECT}, "added"),
    "response.output_item.done": Event({"output_index": INTEGER, "item": OBJECT}, "done"),
    **_parts("response.content_part", "content"),
    **_parts("response.reasoning_summary_part", "summary"),
    **_texts("response.output_text", "content", "output_text", "text"),
    **_texts("response.refusal", "content", "refusal", "refusal"),
    **_texts("response.reasoning_text", "content", "reasoning_text", "text"),
    # The name that Open Responses gives to reasoning_text.
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
    **_notes("mcp_call", "in_progress", "completed", "failed"),
    **_notes("mcp_list_tools", "in_progress", "completed", "failed"),
    **_notes("file_search_call", "in_progress", "searching", "completed"),
    **_notes("web_search_call", "in_progress", "searching", "completed"),
    **_notes("code_interpreter_call", "in_progress", "interpreting", "completed"),
    **_notes("image_generation_call", "in_progress", "generating", "completed"),
    "response.image_generation_call.partial_image": Event(
        {**_ITEM, "partial_image_b64": STRING, "partial_image_index": INTEGER},
        "noted",
        owner="image_generation_call",
    ),
    **_shell(),
    **_notes("compaction", "compacting"),
    "response.audio.delta": Event({"delta": STRING}, "heard"),
    "response.audio.done": Event({}, "heard"),
    "response.audio.transcript.delta": Event({"delta": STRING}, "heard"),
    "response.audio.transcript.done": Event({}, "heard"),
}
# OpenAI's types have the flat form, Open Responses the nested one; an event may carry both.
ERROR_FORMS: tuple[Fields, ...] = (
    {"message": STRING, "code": nullable(STRING), "param": nullable(STRING)},
    {
        "error": object_of(
            {
                "type": STRING,
                "message": STRING,
                "code": nullable(STRING),
                "param": nullable(STRING),
            }
        )
    },
)
