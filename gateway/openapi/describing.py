"""How an address is described: what it takes, what it answers, and what may go wrong.

The handlers read and write bytes, so nothing of this can be seen in their signatures: each names
its operation instead, and `operation` makes those.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from litestar.openapi.spec import (
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    Operation,
    Parameter,
    Reference,
    RequestBody,
    Schema,
)
from litestar.openapi.spec.enums import OpenAPIType
from msgspec import Struct

JSON: Final = "application/json"
STREAM: Final = "text/event-stream"

WRONG: Final = {
    "400": "The request cannot be read, or cannot be carried to the backend.",
    "401": "A key is missing or not known.",
    "404": "It is not there, or no backend serves the model.",
    "413": "The body is too large.",
    "415": "The body is compressed in a way that is not known here.",
    "429": "The backend asks to come again later; `Retry-After` says when, if it does.",
    "500": "Something went wrong in the backend or here.",
    "502": "The backend cannot be reached, or its answer cannot be read.",
    "503": "The database of the gateway cannot be reached.",
    "504": "The backend took too long.",
}
# What can go wrong where something stored is asked for, and where something is sent besides.
STORED: Final = ("401", "404", "503")
SENT: Final = ("400", *STORED, "413", "415")

_LOSSES: Final = OpenAPIHeader(
    schema=Schema(type=OpenAPIType.STRING),
    description="What could not be said in the other dialect: a structured-field list.",
)


class Body(Struct, frozen=True):
    """What is sent to an address: a type of the document, and a sentence."""

    name: str
    description: str
    required: bool = True


class ResponseSpec(Struct, frozen=True):
    """What an address answers when all is well, whole and streamed: types of the document."""

    description: str
    name: str
    stream: str | None = None
    # Whether it says what was lost.
    losses: bool = False


def operation(  # noqa: PLR0913 - each says one thing of an address, by its name
    tag: str,
    name: str,
    summary: str,
    *,
    answer: ResponseSpec,
    wrong: Iterable[str] = (),
    body: Body | None = None,
    query: Mapping[str, str] | None = None,
    path: Mapping[str, str] | None = None,
) -> type[Operation]:
    """Make the description of an address; queries and parts of the path with a sentence each."""
    written = _takes(body) if body else None
    answers = _answers(answer, wrong)
    asked = [_query(*one) for one in (query or {}).items()]
    described = path or {}

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            self.tags = [tag]
            self.operation_id = name
            self.summary = summary
            self.request_body = written
            self.responses = answers
            for parameter in self.parameters or ():
                if isinstance(parameter, Parameter) and parameter.name in described:
                    parameter.description = described[parameter.name]
            if asked:
                self.parameters = [*(self.parameters or ()), *asked]

    return Described


def reference(name: str) -> Reference:
    """Point at one of the types of the document."""
    return Reference(ref=f"#/components/schemas/{name}")


def _content(**names: str | None) -> dict[str, OpenAPIMediaType]:
    media = {"json": JSON, "stream": STREAM}
    return {
        media[kind]: OpenAPIMediaType(schema=reference(name))
        for kind, name in names.items()
        if name
    }


def _takes(body: Body) -> RequestBody:
    content = _content(json=body.name)
    return RequestBody(content=content, description=body.description, required=body.required)


def _answers(answer: ResponseSpec, wrong: Iterable[str]) -> dict[str, OpenAPIResponse | Reference]:
    """Describe the good answer, and the errors there may be."""
    headers: dict[str, OpenAPIHeader | Reference] | None = None
    if answer.losses:
        headers = {"dragoman-loss": _LOSSES}
    content = _content(json=answer.name, stream=answer.stream)
    good = OpenAPIResponse(description=answer.description, content=content, headers=headers)
    return {"200": good, **dict(_errors(wrong))}


def _errors(statuses: Iterable[str]) -> Iterable[tuple[str, OpenAPIResponse]]:
    for status in statuses:
        content = _content(json="ErrorEnvelope")
        yield status, OpenAPIResponse(description=WRONG[status], content=content)


def _query(name: str, description: str) -> Parameter:
    return Parameter(
        name=name,
        param_in="query",
        required=False,
        description=description,
        schema=Schema(type=OpenAPIType.STRING),
    )
