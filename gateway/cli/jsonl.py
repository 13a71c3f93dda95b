"""JSON Lines: one request or reply a line, in the same order out as in.

Only one line is held at a time. The batch files of OpenAI are lines too, in which the body stands
inside: `{"custom_id", "method", "url", "body"}` on the way there, `{"custom_id", "response"}` on
the way back.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath

import msgspec
from msgspec import Raw

from adapters import DragomanError, InvalidRequestError, Translation, dialect
from adapters.ir.types import Family
from gateway.dry_run import BYTE_ORDER_MARK, Kind, OfflineTranslator
from gateway.terminal import fail, print_error, say_losses, write

Object = dict[str, Raw]

_SUFFIXES = (".jsonl", ".ndjson")
_OBJECT = msgspec.json.Decoder(Object)
_TEXT = msgspec.json.Decoder(str)
_STATUS = msgspec.json.Decoder(int)
_ERROR_STATUS = 400
_PATHS: dict[Family, str] = {
    "completions": "/v1/chat/completions",
    "responses": "/v1/responses",
}


def is_lines(name: str) -> bool:
    """Tell by its name whether a file holds JSON Lines."""
    return PurePath(name).suffix.lower() in _SUFFIXES


def translate_lines(
    setting: OfflineTranslator, lines: Iterable[bytes], *, keep_going: bool
) -> bool:
    """Translate line by line; tell whether all went well."""
    went_well = True
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(BYTE_ORDER_MARK).strip()
        if text:
            went_well &= _translate_numbered(setting, number, text, keep_going=keep_going)
    return went_well


def _translate_numbered(
    setting: OfflineTranslator, number: int, line: bytes, *, keep_going: bool
) -> bool:
    where = f"line {number}: "
    try:
        translation = translate_line(setting, line, where)
    except DragomanError as problem:
        if not keep_going:
            fail(f"{where}{problem}")
        print_error(f"{where}{problem}")
        write(setting.exchange("reply").problem(problem).body + b"\n")
        return False
    write(translation.body + b"\n")
    say_losses(translation.losses, where)
    return True


def translate_line(setting: OfflineTranslator, line: bytes, where: str = "") -> Translation:
    """Translate one line, which is a body or holds one."""
    fields = _object(line)
    if {"custom_id", "body"} <= fields.keys():
        return _translate_batched_request(setting, fields)
    if {"custom_id", "response"} <= fields.keys():
        return _translate_batched_reply(setting, fields, line)
    return setting.translate(line, where)


def _object(text: bytes | Raw) -> Object:
    """Read the fields of a line; where it is no object there are none, and its reader says why."""
    try:
        # Fields that are only carried are not read, so what is not UTF-8 is found here.
        bytes(text).decode()
        return _OBJECT.decode(text)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return {}


def _translate_batched_request(setting: OfflineTranslator, fields: Object) -> Translation:
    url = _url(fields, setting)
    translation = replace(setting, kind="request").translate(bytes(fields["body"]))
    fields["body"] = Raw(translation.body)
    fields["url"] = Raw(msgspec.json.encode(url))
    return _with_body(translation, fields)


def _url(fields: Object, setting: OfflineTranslator) -> str:
    """Give the path that the target's requests go to; refuse what went anywhere else before."""
    own = _PATHS[dialect(setting.source).family]
    wanted = _PATHS[dialect(setting.target).family]
    try:
        url = _TEXT.decode(fields.get("url", Raw(b'""')))
    except msgspec.DecodeError:
        raise InvalidRequestError("url", "expected a string") from None
    if url and not _ends_like(url, own):
        raise InvalidRequestError("url", f"{url} is not where {setting.source} requests go ({own})")
    return url if _ends_like(url, wanted) else wanted


def _ends_like(url: str, path: str) -> bool:
    """Compare without the version, which some servers leave out or call otherwise."""
    return url.rstrip("/").endswith(path.removeprefix("/v1"))


def _translate_batched_reply(
    setting: OfflineTranslator, fields: Object, line: bytes
) -> Translation:
    response = _object(fields["response"])
    body = response.get("body")
    if body is None:
        # Never sent, or expired: there is an error of the batch, and nothing to translate.
        return Translation(line)
    status = _status(response)
    kind: Kind = "error" if status >= _ERROR_STATUS else "reply"
    translation = replace(setting, kind=kind, status=status).translate(bytes(body))
    response["body"] = Raw(translation.body)
    fields["response"] = Raw(msgspec.json.encode(response))
    return _with_body(translation, fields)


def _status(response: Object) -> int:
    try:
        return _STATUS.decode(response.get("status_code", Raw(b"200")))
    except msgspec.DecodeError:
        raise InvalidRequestError("response.status_code", "expected a number") from None


def _with_body(translation: Translation, fields: Object) -> Translation:
    return msgspec.structs.replace(translation, body=msgspec.json.encode(fields))
