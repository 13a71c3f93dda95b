"""What a backend can take. Translation asks these; it never asks for a vendor's name.

Each capability has the default that serves a backend of which nothing is known but its dialect.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Place = Literal["anywhere", "merged", "one"]
ToolChoiceWord = Literal["auto", "none", "required", "named"]
CallIdForm = Literal["any", "nine"]
Counting = Literal["none", "responses", "vllm", "llamacpp"]
TextFormat = Literal["hermes", "xml", "mistral", "llama", "json", "fenced"]


class Capabilities(Struct, frozen=True):
    """One named switch for each way in which backends of one dialect differ."""

    # Messages

    # Takes the role `developer`. Many Chat servers and templates know only `system` (P068).
    developer_role: bool = False
    # Where system messages may stand. "merged": those at the beginning are put together, because a
    # template knows just one. "one": later ones join them, because a template refuses them (P070);
    # then an instruction holds from the start, which is not what was said: by default none moves.
    system_messages: Place = "anywhere"
    # What stands for the content of an assistant message that has none, only calls (P071): servers
    # that refuse an empty string and servers that refuse null are about as many.
    empty_content: Literal["null", "empty", "absent"] = "null"
    # Refuses two messages of one role in a row, a user who speaks right after a tool, and an
    # assistant who speaks last, as Mistral's template does (P048).
    strict_turns: bool = False
    # Takes text as a list of parts; where it does not, the texts become one string.
    text_parts: bool = True
    # Takes the `name` of who speaks.
    message_names: bool = True
    # Takes pictures and files in the output of a tool. Where it does not, they follow the output in
    # a user message (P051). The Responses API always takes them.
    tool_images: bool = False
    # Wants a status on every item of the Responses API that can have one (P046).
    item_status: bool = False

    # Reasoning

    # The field of an assistant message in which reasoning is replayed; None: nowhere. A server that
    # does not know the field may refuse it.
    reasoning_field: str | None = None
    # Which turns get it: none, those that made calls, or all that had it (P073, P075).
    reasoning_replay: Literal["never", "calls", "always"] = "always"
    # Refuses a turn that made calls without the field: where nobody knows the reasoning, it is
    # empty (P074).
    reasoning_required: bool = False
    # Which reasoning the Responses API takes back: OpenAI what it sealed (P080), servers of open
    # models also plain thoughts, some of them before each call of a turn (P076).
    reasoning_items: Literal["sealed", "plain", "each_call"] = "sealed"
    # The efforts that it takes; None: any word. One that it does not take becomes the nearest; a
    # word that nobody knows passes, because tables age (P092). None at all: nothing is said.
    efforts: tuple[str, ...] | None = None

    # Tools and calls

    # Knows tools. Where it knows none at all ("prompted"), they are described to it in words, and
    # its calls are read from its text.
    tools: Literal["native", "prompted"] = "native"
    # How its model writes calls into the text, where its server leaves them there: tags around JSON
    # (Hermes, Qwen), a tag for each parameter (Qwen3-Coder), the markers of Mistral or Llama, JSON
    # as the whole answer or in a fence. Only where somebody says so: elsewhere it may be meant.
    text_calls: tuple[TextFormat, ...] = ()
    # Takes `strict` on functions (P007).
    strict: bool = True
    # Makes schemas of functions strict that say so and are not: all properties required, those that
    # were optional nullable, no others. OpenAI refuses them as they are.
    strict_schemas: bool = False
    # Takes custom (freeform) tools; elsewhere they are functions. None: as is usual in its dialect.
    # The Responses API has them, most Chat servers refuse them (P021).
    custom_tools: bool | None = None
    # The types of tools that it takes on the Responses API besides functions and custom tools. What
    # else the client runs becomes functions, what else a server runs is left out. None: all types.
    tool_types: tuple[str, ...] | None = None
    # How many tools with `defer_loading` it is told of, where it has no search for them: those that
    # fit best what the user says. None: all of them.
    deferred_tools: Annotated[int, Meta(ge=0)] | None = None
    # Says so if the input of a custom tool does not keep to its grammar.
    check_grammars: bool = False
    # Takes `allowed_tools` as a tool choice; otherwise only the listed tools are declared.
    allowed_tools: bool = True
    # The other tool choices that it takes. Servers of open models often cannot force a call.
    tool_choices: tuple[ToolChoiceWord, ...] = ("auto", "none", "required", "named")
    # Does nothing with tools unless the choice is said, be it just "auto".
    tool_choice_needed: bool = False
    # Takes `parallel_tool_calls` (P018).
    parallel_tool_calls: bool = True
    # What ids of calls look like. "nine": nine letters or digits, as Mistral's template wants
    # (P055).
    call_ids: CallIdForm = "any"
    # Parses the arguments of calls in a history and fails on what is no JSON object, in every later
    # turn too (P053): such arguments are wrapped in one.
    json_arguments: bool = False
    # Takes `web_search_options`, the one hosted tool that Chat has.
    web_search: bool = False

    # The whole conversation

    # Sums up a conversation by itself: a Responses server that knows compaction (P169, P170).
    # Elsewhere it is asked for a summary in words.
    compaction: bool = False
    # How it counts the tokens of a request before it is sent: as the Responses API does, as vLLM
    # does, as the server of llama.cpp does. "none": not at all.
    counting: Counting = "none"

    # Settings

    # Names the limit `max_tokens` instead of `max_completion_tokens`.
    max_tokens: bool = False
    # Takes the sampling penalties on the Responses API, as Open Responses does.
    penalties: bool = False
    # How it takes a schema for the answer: as such, inside `json_object`, or not at all.
    json_schema: Literal["own", "in_object", "never"] = "own"
    # Names of request fields that it refuses, though its dialect has them: they are left out.
    refuses: tuple[str, ...] = ()
    # Names of request fields that it knows though its dialect does not: they are forwarded from
    # other dialects (`top_k`, `chat_template_kwargs`).
    forward: tuple[str, ...] = ()

    # The answer

    # Whether it answers whole, in a stream, or as it is asked; a client gets what it asked for.
    streaming: Literal["both", "only", "never"] = "both"
    # Takes `stream_options`.
    stream_options: bool = True
    # Thinks aloud: what stands in `<think>` at the beginning of its text is reasoning. Only where
    # somebody says so: elsewhere the tag may be meant.
    inline_think: bool = False


GENERIC = Capabilities()
