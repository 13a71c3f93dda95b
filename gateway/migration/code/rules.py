"""The rules of the migration of code, with what `--explain` prints."""

from typing import Final, Literal

from msgspec import Struct

# The rules of a family depend on each other: a program is rewritten by all of them or by none.
Family = Literal["sdk", "functions", "frameworks"]
# In the order in which their changes are applied.
FAMILIES: Final[tuple[Family, ...]] = ("sdk", "functions", "frameworks")


class Rule(Struct, frozen=True):
    """What one rule finds, what it becomes, and why that is safe."""

    family: Family
    summary: str
    explanation: str


RULES: dict[str, Rule] = {
    "openai-resource": Rule(
        "sdk",
        "The program uses `openai.ChatCompletion` of version 0.28.",
        """\
    openai.ChatCompletion.create(...)         ->    openai.chat.completions.create(...)
    await openai.ChatCompletion.acreate(...)  ->    await openai.AsyncOpenAI().chat.completions
                                                    .create(...)

The module-level client of the current SDK reads the same configuration. It has no asynchronous
form, so a client with the configuration of the module is created for each call. Other resources,
such as `openai.Embedding`, are left, because their replies are not followed.""",
    ),
    "openai-config": Rule(
        "sdk",
        "The program configures version 0.28 of the SDK.",
        """\
    openai.api_base = "http://host/v1"    ->    openai.base_url = "http://host/v1/"
    openai.api_base = endpoint            ->    openai.azure_endpoint = endpoint   (with Azure)
    create(engine="gpt", ...)             ->    create(model="gpt", ...)
    create(request_timeout=30, ...)       ->    create(timeout=30, ...)
    create(api_key=key, ...)              ->    openai.OpenAI(api_key=key)...create(...)

The current SDK joins its base URL and paths as text, so the URL needs its final slash.""",
    ),
    "openai-error": Rule(
        "sdk",
        "The program uses `openai.error`.",
        """\
    openai.error.RateLimitError         ->    openai.RateLimitError
    openai.error.InvalidRequestError    ->    openai.BadRequestError
    openai.error.APIError               ->    openai.InternalServerError
    error.http_status                   ->    getattr(error, "status_code", None)

Each error becomes the one that is raised for the same status. The current `openai.APIError` is the
base of all errors with a status, so it would catch more. The current SDK repeats failed requests,
which version 0.28 did not; `openai.max_retries = 0` leaves that to a program with handlers.""",
    ),
    "openai-reply": Rule(
        "sdk",
        "The program reads a reply as a dictionary.",
        """\
    reply["choices"][0]["message"]    ->    reply.choices[0].message
    message.get("content", "")        ->    (message.content or "")
    "content" in message              ->    message.content is not None
    messages.append(message)          ->    messages.append(message.to_dict())

Replies were dictionaries and objects, and are only objects now. A message that is kept in a list is
converted, because the other messages in it are dictionaries.""",
    ),
    "request-functions": Rule(
        "functions",
        "A request sends `functions`.",
        """\
    functions=[weather]    ->    tools=[{"type": "function", "function": weather}],
                                 parallel_tool_calls=False

Each function becomes a tool with the same schema. A legacy reply has at most one call, so one call
at a time is requested: the program receives what it received before. If all calls are handled in
loops, `parallel_tool_calls` is left out.""",
    ),
    "request-function-call": Rule(
        "functions",
        "A request sends `function_call`.",
        """\
    function_call="auto"               ->    tool_choice="auto"
    function_call={"name": "weather"}  ->    tool_choice={"type": "function",
                                                          "function": {"name": "weather"}}

The values have the same meaning.""",
    ),
    "read-function-call": Rule(
        "functions",
        "The program reads `function_call` of a reply.",
        """\
    if message.function_call:              ->    if message.tool_calls:
    message.function_call.name             ->    message.tool_calls[0].function.name
    call = message.function_call           ->    call = message.tool_calls[0]

Where the statements that handle a call and add its result can be repeated, they become a loop over
`message.tool_calls`. If that is not possible for all calls of a program, the reply has at most one
call, because `parallel_tool_calls` is false. A variable keeps the whole
tool call, as the result needs its id. A person must decide if a call is used in a way that cannot
be followed, for example if it is stored in an object.""",
    ),
    "responses-request": Rule(
        "functions",
        "A request is sent to Chat Completions (with `--to responses`).",
        """\
    client.chat.completions.create(messages=m)    ->    client.responses.create(input=m)
    max_tokens=100                                ->    max_output_tokens=100
    functions=[weather]                           ->    tools=[{"type": "function", **weather,
                                                                "strict": False}]

The schemas are not strict, as before. Fields that the Responses API does not have, and streams,
whose events differ, are left. OpenAI keeps responses; `store=False` avoids it.""",
    ),
    "responses-reply": Rule(
        "functions",
        "A reply of Chat Completions is read (with `--to responses`).",
        """\
    reply.choices[0].message      ->    reply
    message.content               ->    reply.output_text
    message.function_call.name    ->    next(item for item in reply.output
                                             if item.type == "function_call").name
    messages.append(message)      ->    messages.extend(reply.output)

A response has the text and the calls that a choice and its message have. Its output is sent back
as it is, so that the results find their calls.""",
    ),
    "legacy-type": Rule(
        "functions",
        "The program imports a type of the SDK for legacy functions.",
        """\
    FunctionCall                          ->    ChatCompletionMessageFunctionToolCall
    ChatCompletionFunctionMessageParam    ->    ChatCompletionToolMessageParam

The types are those of the values that the rewritten program has.""",
    ),
    "langchain": Rule(
        "frameworks",
        "The program uses legacy functions with LangChain.",
        """\
    bind_functions, convert_to_openai_function, OpenAIFunctionsAgent, create_openai_functions_agent,
    additional_kwargs["function_call"], FunctionMessage and others

The replacements, such as `bind_tools`, return other objects and need other prompts and parsers. So
nothing is rewritten: a comment names the replacement.""",
    ),
    "llama-index": Rule(
        "frameworks",
        "The program uses legacy functions with LlamaIndex.",
        """\
    to_openai_function, OpenAIAgent, chat(functions=...), additional_kwargs["function_call"]

Current versions have other classes for agents. So nothing is rewritten: a comment names the
replacement.""",
    ),
    "finish-reason": Rule(
        "functions",
        'The program compares `finish_reason` with "function_call".',
        """\
    finish_reason == "function_call"    ->    finish_reason == "tool_calls"

Servers report the same situation with this reason.""",
    ),
    "function-message": Rule(
        "functions",
        'A message has the role "function".',
        """\
    {"role": "function", "name": call.name, "content": result}
    ->    {"role": "tool", "tool_call_id": call.id, "content": result}

The id is that of the call which was read last in the same function. A person must decide if no call
was read there: the id has to be passed to it.""",
    ),
    "assistant-function-call": Rule(
        "functions",
        "A message of the assistant has `function_call`.",
        """\
    {"role": "assistant", "function_call": {"name": name, "arguments": arguments}}
    ->    {"role": "assistant", "tool_calls": [{"id": message.tool_calls[0].id, "type": "function",
                                "function": {"name": name, "arguments": arguments}}]}

The message has the id by which the result refers to it.""",
    ),
}
