"""Request fields that a backend refuses by name, and requests without them.

Servers of one dialect accept different fields, and models of one server too. Only fields with
little influence on the reply are left out, and those whose effect can be produced in the reply.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.dialect import translate_error_param
from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Loss
from adapters.translation.request import BackendRequest, TranslationOptions
from adapters.wire.extra_fields import MINOR_FIELDS
from adapters.wire.json_object import RequestBody

# Fields that a request can do without, in the form of any dialect.
OPTIONAL_FIELDS: Final = MINOR_FIELDS | {
    "reasoning.effort",
    "reasoning.generate_summary",
    "reasoning.summary",
    "stream_options.include_obfuscation",
    "stream_options.include_usage",
    "text.verbosity",
}

_REASON: Final = "the backend rejects this field; it is left out"
_MAX_MESSAGE_LENGTH: Final = 4000
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()

_NAME: Final = r"[\[{(]*[`'\"]?[A-Za-z_][\w.\[\]]*[`'\"]?"
_NAMES: Final = rf"{_NAME}(?:,\s*{_NAME})*"
_KIND: Final = (
    r"(?:parameter|param|argument|field|property|properties|key|name|input|option)(?:s|\(s\))?"
)
_UNUSUAL: Final = r"(?:unsupported|unknown|unrecognized|unexpected|extra|additional)"
_BEFORE_NAMES: Final = "(?: (?:supplied|received|found|in object))?:?"
# Gemini names the object around an inner field after it.
_NOT_INNER: Final = "(?! at ')"
_UNSUPPORTED: Final = (
    r"(?:unsupported|unknown|unrecognized|deprecated for|(?:currently )?not (?:yet )?"
    r"(?:supported|allowed|permitted|accepted|recognized))"
)
# The messages by which servers refuse fields.
_REFUSALS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # OpenAI, Azure, Gemini, servers in Python, Go and Rust.
        rf"\b{_UNUSUAL} (?:\w+ )?{_KIND}{_BEFORE_NAMES} ((?>{_NAMES})){_NOT_INNER}",
        # Cohere and servers in C#.
        rf"({_NAME}) (?:is )?not a (?:valid|known) {_KIND}",
        rf"could not find member ({_NAME}) on object",
        # Pydantic, as JSON and as Python prints it.
        rf"({_NAME}): extra (?:inputs|fields)(?: are)? not permitted",
        rf"extra (?:inputs|fields)(?: are)? not permitted,? {_KIND}: ({_NAMES})",
        rf"'loc': \('body', ({_NAME})\), 'msg': 'Extra inputs",
        rf"\"loc\":\s*\[\"body\",\s*({_NAME})\],\s*\"msg\":\s*\"Extra inputs",
        # Bedrock.
        rf"extraneous key \[({_NAME})\] is not permitted",
        # Groq and Cerebras; the words before the name exclude "functions with x are not supported".
        rf"(?<!with )(?<!\w)({_NAME}) (?:is|are) {_UNSUPPORTED}(?! to )",
        rf"\b{_KIND} ({_NAME}) (?:not supported|not allowed|unknown|unsupported)",
        rf"\bdo(?:es)? not support (?:the )?(?:{_KIND}:? )?({_NAMES})",
        rf"{_KIND} (?:are )?not supported(?: (?:on|by|for|with) this model)?: ({_NAMES})",
        rf"\(({_NAMES}) (?:was|were) unexpected\)",
        rf"({_NAME}) does not support [^\n]{{1,80}}\bonly the default",
    )
)
_PARAMETER_CODES: Final = ("unsupported_parameter", "unknown_parameter")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][\w.\[\]]*")
_INDEX: Final = re.compile(r"\[(\w*)\]")
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


def emulated_fields(options: TranslationOptions) -> frozenset[str]:
    """Return the fields without which a request has the same effect, if it is translated."""
    return frozenset(("stop", "n") if options.max_choices > 1 else ("stop",))


def refused_fields(error: Error, request: BackendRequest) -> frozenset[str]:
    """Return the fields of a request that a backend refuses, if the request can do without them.

    If the backend also refuses a field that is required, none is returned.
    """
    try:
        fields = _FIELDS.decode(request.body)
    except DECODE_ERRORS:
        return frozenset()
    refused = {path for path in _refused_paths(error) if _contains(fields, path)}
    removable = OPTIONAL_FIELDS | emulated_fields(request.reply_plan.options)
    return frozenset(refused) if refused <= removable else frozenset()


def _refused_paths(error: Error) -> Iterator[str]:
    """Yield the names in an error, also some that are no fields."""
    if error.param is not None and error.code in _PARAMETER_CODES:
        yield _path(error.param)
        return
    message = error.message[:_MAX_MESSAGE_LENGTH]
    for pattern in _REFUSALS:
        for match in pattern.finditer(message):
            for name in _IDENTIFIER.findall(match.group(1)):
                yield _path(name)


def _path(name: str) -> str:
    """Return the path of a field: `body.topP` is `top_p`, `tools[0].strict` is `tools.0.strict`."""
    path = _INDEX.sub(r".\1", name).rstrip(".").removeprefix("body.")
    return _CAMEL_CASE.sub(lambda match: f"_{match.group().lower()}", path)


def _contains(fields: dict[str, Raw], path: str) -> bool:
    outer, _, inner = path.partition(".")
    if outer not in fields or not inner or path not in OPTIONAL_FIELDS:
        return outer in fields
    return inner in _inner_fields(fields[outer])


def _inner_fields(raw: Raw) -> dict[str, Raw]:
    try:
        return _FIELDS.decode(raw)
    except DECODE_ERRORS:
        return {}


def leave_out(
    request: BackendRequest, refused: Collection[str], given: RequestBody
) -> BackendRequest:
    """Return a request without the fields that its backend refuses; `given` is the client's."""
    fields = _FIELDS.decode(request.body)
    removed = [
        path for path in sorted(refused) if path in OPTIONAL_FIELDS and _remove(fields, path)
    ]
    if not removed:
        return request
    options = request.reply_plan.options
    losses = list(request.losses)
    for path in removed:
        translated = translate_error_param(path, options.backend, options.client) or path
        # A field that the client did not set is of no interest to it.
        is_given = translated.partition(".")[0] in given.fields
        losses.append(Loss("dropped", translated, _REASON, "hint" if is_given else "adapted"))
    return replace(request, body=_ENCODER.encode(fields), losses=tuple(losses))


def _remove(fields: dict[str, Raw], path: str) -> bool:
    """Remove a field, and the object around it if nothing else is in it."""
    outer, _, inner = path.partition(".")
    if not inner:
        return fields.pop(outer, None) is not None
    inner_fields = _inner_fields(fields.get(outer, Raw(b"{}")))
    if inner_fields.pop(inner, None) is None:
        return False
    if inner_fields:
        fields[outer] = Raw(_ENCODER.encode(inner_fields))
    else:
        del fields[outer]
    return True
