"""Requests for compaction, as recorded from clients, and validation of their responses."""

from openai.types.responses import Response

from tests.gateway.background.requests import events_of
from tests.gateway.raw_http import RawResponse
from tests.judges.open_responses import EVERYTHING, assert_response, assert_stream
from tests.judges.reading import JsonObject, object_in
from tests.judges.sdk import judge_responses_reply, judge_responses_stream

SUMMARY = "1. Goal: a report on Oslo. 3. Facts: 18 degrees in weather.txt."
TRIGGER: JsonObject = {"type": "compaction_trigger"}


def message(role: str, text: str) -> JsonObject:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


INVALID: JsonObject = {"type": "message", "role": "user", "content": [{"type": "nonsense"}]}
# Recorded from Codex and shortened.
HISTORY: list[JsonObject] = [
    message("developer", "You are Codex."),
    message("user", "<environment_context/>"),
    message("user", "Please do the task"),
    {
        "type": "function_call",
        "id": "fc_1",
        "name": "exec_command",
        "arguments": '{"cmd": "echo hi"}',
        "call_id": "call_4",
        "internal_chat_message_metadata_passthrough": {"turn_id": "t"},
    },
    {
        "type": "function_call_output",
        "id": "fco_1",
        "call_id": "call_4",
        "output": "Chunk ID: af4ba1\nhi",
    },
]
EXEC_COMMAND_TOOL: JsonObject = {
    "type": "function",
    "name": "exec_command",
    "description": "Runs a command.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}},
}
# Fields of every request of Codex.
SETTINGS: JsonObject = {
    "tools": [EXEC_COMMAND_TOOL, {"type": "web_search", "external_web_access": True}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "019a8f00-0000-7000-8000-000000000006",
    "text": {"verbosity": "low"},
    "client_metadata": {"turn_id": "019a8f00"},
}


def validated(received: RawResponse, *, streamed: bool = False) -> JsonObject:
    """Validate a whole reply or a stream, and return its response."""
    assert received.status == 200, received.body
    if not streamed:
        judge_responses_reply(received.body)
        assert_response(received.json(), allow=EVERYTHING)
        return received.json()
    judge_responses_stream(received.body)
    assert_stream(received.body, allow=EVERYTHING)
    return object_in(events_of(received.body)[-1], "response")


def item_types(response: Response) -> list[str]:
    return [item.type for item in response.output]
