"""Annotations and probabilities, as the Responses API writes them."""

from msgspec import Raw

from adapters.ir.types import Annotation, Citation, Logprob
from adapters.losses import Losses

Wire = dict[str, object]


def write_annotation(annotation: Annotation, losses: Losses) -> Wire | Raw | None:
    """Write an annotation."""
    if isinstance(annotation, Citation):
        return {
            "type": "url_citation",
            "url": annotation.url,
            "title": annotation.title,
            "start_index": annotation.start_index,
            "end_index": annotation.end_index,
        }
    if annotation.family == "responses":
        return annotation.value
    losses.dropped("annotations", "the Responses API does not know this annotation")
    return None


def write_logprobs(logprobs: tuple[Logprob, ...] | list[Logprob]) -> list[Wire]:
    """Write probabilities; bytes are a list here, where Chat may have null."""
    return [
        {
            "token": one.token,
            "logprob": one.logprob,
            "bytes": one.bytes or (),
            "top_logprobs": [
                {"token": top.token, "logprob": top.logprob, "bytes": top.bytes or ()}
                for top in one.top_logprobs or ()
            ],
        }
        for one in logprobs
    ]
