"""The Responses API: the parts of messages and of tool outputs."""

from typing import Annotated

from msgspec import Meta

from gateway.openapi.common import ApiModel, CacheBreakpoint, Opaque


class ResponsesPart(ApiModel, tag_field="type"):
    """One part of a message or of a tool's output."""


class InputText(ResponsesPart, tag="input_text"):
    """Text for the model."""

    text: str
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class InputImage(ResponsesPart, tag="input_image"):
    """An image for the model: an address or data URL, or the id of a file."""

    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class InputFile(ResponsesPart, tag="input_file"):
    """A file for the model: its content, its address or its id."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None
    detail: str | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class OutputText(ResponsesPart, tag="output_text"):
    """Text of the model."""

    text: str
    annotations: Annotated[
        list[Opaque] | None, Meta(description="Sources that the text cites.")
    ] = None
    logprobs: list[Opaque] | None = None


class OutputRefusal(ResponsesPart, tag="refusal"):
    """A refusal of the model."""

    refusal: str


class SummaryText(ResponsesPart, tag="summary_text"):
    """What the model thought, in short."""

    text: str


class ReasoningText(ResponsesPart, tag="reasoning_text"):
    """What the model thought."""

    text: str


InputPart = InputText | InputImage | InputFile
OutputPart = OutputText | OutputRefusal
MessagePart = InputText | InputImage | InputFile | OutputText | OutputRefusal
