"""The Responses API: which tool to call."""

from typing import Any, Literal

from gateway.openapi.common import ApiModel


class ToolChoice(ApiModel, tag_field="type"):
    """What must be called, or may be."""


class ChosenFunction(ToolChoice, tag="function"):
    """The one function that must be called."""

    name: str


class ChosenCustom(ToolChoice, tag="custom"):
    """The one custom tool that must be called."""

    name: str


class ChosenMcp(ToolChoice, tag="mcp"):
    """A tool of an MCP server that must be called, or any of its tools."""

    server_label: str
    name: str | None = None


class AllowedChoice(ToolChoice, tag="allowed_tools"):
    """Only these tools may be called, or one of them must be."""

    mode: Literal["auto", "required"]
    tools: list[dict[str, Any]]


# Tools that are forced by their type alone


class ChosenFileSearch(ToolChoice, tag="file_search"):
    """A search in files must be used."""


class ChosenWebSearch(ToolChoice, tag="web_search"):
    """A search of the web must be used."""


class ChosenWebSearchPreview(ToolChoice, tag="web_search_preview"):
    """A search of the web, as it was before must be used."""


class ChosenDatedWebSearchPreview(ToolChoice, tag="web_search_preview_2025_03_11"):
    """The same, in the version of a date."""


class ChosenComputer(ToolChoice, tag="computer"):
    """A computer must be used."""


class ChosenComputerUse(ToolChoice, tag="computer_use"):
    """A computer, by another name must be used."""


class ChosenComputerPreview(ToolChoice, tag="computer_use_preview"):
    """A computer, as it was before must be used."""


class ChosenImageGeneration(ToolChoice, tag="image_generation"):
    """An image must be used."""


class ChosenCodeInterpreter(ToolChoice, tag="code_interpreter"):
    """A program must be used."""


class ChosenApplyPatch(ToolChoice, tag="apply_patch"):
    """A change to files must be used."""


class ChosenShell(ToolChoice, tag="shell"):
    """A shell must be used."""


class ChosenProgram(ToolChoice, tag="programmatic_tool_calling"):
    """A program that calls tools must be used."""


ResponsesToolChoice = (
    Literal["none", "auto", "required"]
    | ChosenFunction
    | ChosenCustom
    | ChosenMcp
    | AllowedChoice
    | ChosenFileSearch
    | ChosenWebSearch
    | ChosenWebSearchPreview
    | ChosenDatedWebSearchPreview
    | ChosenComputer
    | ChosenComputerUse
    | ChosenComputerPreview
    | ChosenImageGeneration
    | ChosenCodeInterpreter
    | ChosenApplyPatch
    | ChosenShell
    | ChosenProgram
)
