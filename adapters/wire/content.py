"""Reader of content parts in the forms of all dialects.

Some clients send the parts of one dialect in messages of another dialect. One reader can accept all
parts, because their types are unique. Each dialect has its own writer.
"""

from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Raw
from msgspec.json import Decoder

from adapters.ir import types as ir
from adapters.losses import Losses
from adapters.wire.extra_fields import unread_fields
from adapters.wire.json_object import JsonObject, decode, read_fields, read_text_or_fields
from adapters.wire.malformed_values import read_or_drop

_LOGPROBS = Decoder(tuple[ir.Logprob, ...])


def read_content(
    given: str | list[Raw] | None, path: str, family: ir.Family
) -> tuple[ir.Part, ...]:
    """Read the content of a message: a string, a list of parts, or nothing."""
    if given is None:
        return ()
    if isinstance(given, str):
        return (ir.Text(given),)
    return tuple(_read_part(raw, f"{path}[{i}]", family) for i, raw in enumerate(given))


def _read_part(raw: Raw, path: str, family: ir.Family) -> ir.Part:
    fields = read_text_or_fields(raw, path)
    if isinstance(fields, str):
        return ir.Text(fields)
    kind = fields.string("type") or ("text" if fields.has("text") else "")
    reader = _READERS.get(kind)
    return ir.OtherPart(family, kind, raw) if reader is None else reader(fields, family)


def _read_text(fields: JsonObject, family: ir.Family) -> ir.Part:
    path = fields.at("annotations")
    annotations = tuple(
        read_annotation(raw, family, f"{path}[{number}]")
        for number, raw in enumerate(fields.array("annotations"))
    )
    logprobs = read_logprobs(fields.raw("logprobs"), fields.at("logprobs"))
    text = fields.string("text") or ""
    breakpoint_ = fields.raw("prompt_cache_breakpoint")
    return ir.Text(text, annotations, logprobs, breakpoint_, unread_fields(fields, family))


def _read_refusal(fields: JsonObject, family: ir.Family) -> ir.Part:
    return ir.Refusal(fields.string("refusal") or "", unread_fields(fields, family))


def _read_image(fields: JsonObject, family: ir.Family) -> ir.Part:
    """Read an image; in Chat, its URL is in the object `image_url`."""
    url = fields.text_or_fields("image_url")
    inner: ir.Extras = ()
    detail = None
    if isinstance(url, JsonObject):
        address, url = url, url.string("url")
        detail = address.string("detail")
        inner = unread_fields(address, family, prefix="image_url.")
    return ir.Image(
        url=url,
        file_id=fields.string("file_id"),
        detail=fields.string("detail") or detail,
        cache_breakpoint=fields.raw("prompt_cache_breakpoint"),
        extras=inner + unread_fields(fields, family),
    )


def _read_file(fields: JsonObject, family: ir.Family) -> ir.Part:
    """Read a file; in Chat, its fields are in the object `file`."""
    inner = fields.nested("file") or fields
    return ir.File(
        data=inner.string("file_data"),
        file_id=inner.string("file_id"),
        url=inner.string("file_url"),
        filename=inner.string("filename"),
        detail=inner.string("detail"),
        cache_breakpoint=fields.raw("prompt_cache_breakpoint"),
        extras=unread_fields(inner, family, prefix="" if inner is fields else "file.")
        + unread_fields(fields, family),
    )


def _read_audio(fields: JsonObject, family: ir.Family) -> ir.Part:
    inner = fields.nested("input_audio") or fields
    return ir.Audio(
        data=inner.string("data") or "",
        format=inner.string("format") or "",
        cache_breakpoint=fields.raw("prompt_cache_breakpoint"),
        extras=(() if inner is fields else unread_fields(inner, family, prefix="input_audio."))
        + unread_fields(fields, family),
    )


_READERS: dict[str, Callable[[JsonObject, ir.Family], ir.Part]] = {
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "refusal": _read_refusal,
    "image_url": _read_image,
    "input_image": _read_image,
    "file": _read_file,
    "input_file": _read_file,
    "input_audio": _read_audio,
}


def read_annotation(raw: Raw, family: ir.Family, path: str) -> ir.Annotation:
    """Read an annotation; in Chat, the fields of a citation are in the object `url_citation`."""
    fields = read_fields(raw, path)
    if fields.string("type") != "url_citation":
        return ir.OtherAnnotation(family, raw)
    inner = fields.nested("url_citation") or fields
    return ir.Citation(
        url=inner.string("url") or "",
        title=inner.string("title") or "",
        start_index=inner.integer("start_index") or 0,
        end_index=inner.integer("end_index") or 0,
    )


def read_logprobs(raw: Raw | None, path: str) -> tuple[ir.Logprob, ...]:
    """Read log probabilities, which have the same form in all dialects."""
    return () if raw is None else decode(raw, _LOGPROBS, path)


# Details of a streamed reply


def read_streamed_annotations(
    raws: Iterable[Raw], family: ir.Family, path: str, losses: Losses
) -> tuple[ir.Annotation, ...]:
    """Read annotations; a malformed one is reported instead of ending the stream."""
    annotations: list[ir.Annotation] = []
    for number, raw in enumerate(raws):
        at = f"{path}[{number}]"
        read = partial(read_annotation, family=family, path=at)
        annotation = read_or_drop(read, raw, at, losses)
        if annotation is not None:
            annotations.append(annotation)
    return tuple(annotations)


def read_streamed_logprobs(raw: Raw, path: str, losses: Losses) -> tuple[ir.Logprob, ...]:
    """Read log probabilities; malformed ones are reported instead of ending the stream."""
    return read_or_drop(partial(read_logprobs, path=path), raw, path, losses) or ()
