"""Open Responses: what a response, its items and its parts must hold.

The specification's validators want more than OpenAI's own types do: every setting echoed, few of
them null, and absence instead of null inside items.
"""

from tests.judges.shapes import (
    Allowed,
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
LOGPROBS = array(record({**TOKEN, "top_logprobs": array(record(TOKEN))}))

URL_CITATION = record({"url": text, "start_index": integer, "end_index": integer, "title": text})
ANNOTATION = tagged(
    {
        "url_citation": URL_CITATION,
        "file_citation": beyond("citations", anything),
        "container_file_citation": beyond("citations", anything),
        "file_path": beyond("citations", anything),
    }
)

INPUT_PARTS = {
    "input_text": record({"text": text}),
    "input_image": record({"image_url": nullable(text), "detail": word("low", "high", "auto")}),
    "input_file": record({}, {"filename": text, "file_url": text}),
}
PART = tagged(
    {
        **INPUT_PARTS,
        "input_video": record({"video_url": text}),
        "output_text": record(
            {"text": text, "annotations": array(ANNOTATION)}, {"logprobs": LOGPROBS}
        ),
        "text": record({"text": text}),
        "summary_text": record({"text": text}),
        "reasoning_text": record({"text": text}),
        "refusal": record({"refusal": text}),
    }
)


def _output(value: object, at: str, allowed: Allowed) -> None:
    if not isinstance(value, str):
        array(tagged(INPUT_PARTS))(value, at, allowed)


# Optional fields may be left out but not be null: phase, content, encrypted_content.
ITEM = tagged(
    {
        "message": record(
            {
                "id": text,
                "status": STATUS,
                "role": word("user", "assistant", "system", "developer"),
                "content": array(PART),
            },
            {"phase": word("commentary", "final_answer")},
        ),
        "function_call": record(
            {
                "id": text,
                "call_id": CALL_ID,
                "name": FUNCTION_NAME,
                "arguments": text,
                "status": STATUS,
            }
        ),
        "function_call_output": record(
            {"id": text, "call_id": CALL_ID, "output": _output, "status": STATUS}
        ),
        "reasoning": record(
            {"id": text, "summary": array(PART)},
            {"content": array(PART), "encrypted_content": text},
        ),
        "compaction": record({"id": text, "encrypted_content": text}, {"created_by": text}),
        "custom_tool_call": beyond(
            "custom_tools", record({"id": text, "call_id": CALL_ID, "name": text, "input": text})
        ),
        "custom_tool_call_output": beyond(
            "custom_tools", record({"id": text, "call_id": CALL_ID, "output": _output})
        ),
    }
)

TOOL = tagged(
    {
        "function": record(
            {
                "name": text,
                "description": nullable(text),
                "parameters": nullable(record({})),
                "strict": nullable(flag),
            }
        ),
        "custom": beyond("custom_tools", record({"name": text})),
    }
)
CHOICE_WORD = word("none", "auto", "required")
NAMED_CHOICES = {
    "function": record({}, {"name": text}),
    "custom": beyond("custom_tools", record({"name": text})),
}
CHOICE = tagged(
    {
        **NAMED_CHOICES,
        "allowed_tools": record({"mode": CHOICE_WORD, "tools": array(tagged(NAMED_CHOICES))}),
    }
)


def _tool_choice(value: object, at: str, allowed: Allowed) -> None:
    (CHOICE_WORD if isinstance(value, str) else CHOICE)(value, at, allowed)


FORMAT = tagged(
    {
        "text": record({}),
        "json_object": record({}),
        "json_schema": record(
            {
                "name": text,
                "description": nullable(text),
                "schema": either(null, "json_schema", record({})),
                "strict": flag,
            }
        ),
    }
)
EFFORTS = ("none", "low", "medium", "high", "xhigh")
REASONING = record(
    {
        "effort": nullable(either(word(*EFFORTS), "efforts", word(*EFFORTS, "minimal", "max"))),
        "summary": nullable(word("concise", "detailed", "auto")),
    }
)
USAGE = record(
    {
        "input_tokens": integer,
        "output_tokens": integer,
        "total_tokens": integer,
        "input_tokens_details": record({"cached_tokens": integer}),
        "output_tokens_details": record({"reasoning_tokens": integer}),
    }
)

# Every key must be there, though many may be null.
RESPONSE = record(
    {
        "id": text,
        "object": word("response"),
        "created_at": integer,
        "completed_at": nullable(integer),
        "status": word("queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
        "incomplete_details": nullable(record({"reason": text})),
        "model": text,
        "previous_response_id": nullable(text),
        "instructions": nullable(text),
        "output": array(ITEM),
        "error": nullable(record({"code": text, "message": text})),
        "tools": array(TOOL),
        "tool_choice": _tool_choice,
        "truncation": word("auto", "disabled"),
        "parallel_tool_calls": flag,
        "text": record({"format": FORMAT}, {"verbosity": word("low", "medium", "high")}),
        "top_p": number,
        "presence_penalty": number,
        "frequency_penalty": number,
        "top_logprobs": integer,
        "temperature": number,
        "reasoning": nullable(REASONING),
        "usage": nullable(USAGE),
        "max_output_tokens": nullable(integer),
        "max_tool_calls": nullable(integer),
        "store": flag,
        "background": flag,
        "service_tier": text,
        "metadata": anything,
        "safety_identifier": nullable(text),
        "prompt_cache_key": nullable(text),
    }
)

# The reply of `/responses/compact`.
COMPACTION = record(
    {
        "id": text,
        "object": word("response.compaction"),
        "created_at": integer,
        "output": array(ITEM),
        "usage": USAGE,
    }
)
