"""The dry run of a translation."""

from typing import Annotated, Any

from msgspec import Meta, field

from adapters.losses import Loss, Policy
from gateway.config.schema import DialectName
from gateway.dry_runs.kinds import Kind
from gateway.openapi.common import ApiModel


class TranslateRequest(ApiModel, forbid_unknown_fields=True):
    """What to translate: a `body` of JSON, or a `stream` as text."""

    source: Annotated[DialectName, Meta(description="The dialect it is in.")] = field(name="from")
    target: Annotated[DialectName, Meta(description="The dialect to write.")] = field(name="to")
    kind: Annotated[Kind | None, Meta(description="What it is; left out, it is guessed.")] = None
    body: Annotated[Any, Meta(description="A request, a reply or an error.")] = None
    stream: Annotated[str | None, Meta(description="A whole stream of events.")] = None
    status: Annotated[int | None, Meta(description="The HTTP status that an error came with.")] = (
        None
    )
    asked: Annotated[
        Any,
        Meta(description="The request that a reply answers, in the dialect of who gets the reply."),
    ] = None
    profile: Annotated[
        str | None, Meta(description="What the backend takes: the name of a profile.")
    ] = None
    loss: Annotated[Policy, Meta(description="Report what the target cannot do, or refuse it.")] = (
        "report"
    )
    deterministic: Annotated[
        bool, Meta(description="Count ids from 1 and let the clock stand still.")
    ] = False


class TranslateReply(ApiModel):
    """The translation, and what was lost on the way."""

    kind: Kind
    status: Annotated[int, Meta(description="The HTTP status that goes with it.")]
    losses: list[Loss]
    body: Annotated[Any, Meta(description="Of a request, a reply or an error.")] = None
    stream: Annotated[str | None, Meta(description="Of a stream.")] = None
