"""Records of every kind, in the legacy form."""

from tests.judges.reading import JsonObject

SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION: JsonObject = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
TOOL: JsonObject = {"type": "function", "function": FUNCTION}
QUESTION: JsonObject = {"role": "user", "content": "How warm is it in Zürich?"}
CALL: JsonObject = {"name": "weather", "arguments": '{"city":  "Z\\u00fcrich"}'}
CALLING: JsonObject = {"role": "assistant", "content": None, "function_call": CALL}
RESULT: JsonObject = {"role": "function", "name": "weather", "content": "18"}
ANSWER: JsonObject = {"role": "assistant", "content": "18 degrees."}
HISTORY: list[JsonObject] = [QUESTION, CALLING, RESULT, ANSWER]

REQUEST: JsonObject = {"model": "m", "messages": HISTORY, "functions": [FUNCTION]}
EXAMPLE: JsonObject = {
    "messages": [QUESTION, {**CALLING, "weight": 0}, RESULT, {**ANSWER, "weight": 1}],
    "functions": [FUNCTION],
}
BATCH_LINE: JsonObject = {
    "custom_id": "a",
    "method": "POST",
    "url": "/v1/chat/completions",
    "body": REQUEST,
}
PREFERENCE: JsonObject = {
    "input": {"messages": [QUESTION], "functions": [FUNCTION]},
    "preferred_output": [CALLING],
    "non_preferred_output": [ANSWER],
}
REPLY: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": CALLING, "finish_reason": "function_call"}],
}

# A thread as its endpoints return it, the newest object first.
THREAD: JsonObject = {
    "thread": {"id": "thread_1", "object": "thread", "created_at": 1, "metadata": {"topic": "tea"}},
    "messages": {
        "object": "list",
        "data": [
            {
                "id": "msg_2",
                "object": "thread.message",
                "created_at": 3,
                "role": "assistant",
                "content": [{"type": "text", "text": {"value": "18 degrees.", "annotations": []}}],
            },
            {
                "id": "msg_1",
                "object": "thread.message",
                "created_at": 2,
                "role": "user",
                "content": [{"type": "text", "text": {"value": "How warm?", "annotations": []}}],
            },
        ],
    },
    "runs": [
        {
            "id": "run_1",
            "object": "thread.run",
            "created_at": 2,
            "model": "m",
            "instructions": "Be brief.",
            "tools": [{"type": "function", "function": FUNCTION}],
        }
    ],
    "steps": [
        {
            "id": "step_1",
            "object": "thread.run.step",
            "created_at": 3,
            "type": "tool_calls",
            "step_details": {
                "type": "tool_calls",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {**CALL, "output": "18"}},
                    {"id": "call_2", "type": "code_interpreter", "code_interpreter": {}},
                ],
            },
        }
    ],
}
