"""Lines of OpenAI's batch files, which contain the body of a request or a reply.

`{"custom_id", "method", "url", "body"}` or `{"custom_id", "response": {"status_code", "body"}}`.
"""

from dataclasses import replace

import msgspec
from msgspec import Raw

from adapters import InvalidRequestError, get_dialect
from gateway.dry_run import Kind, OfflineTranslator, Translation

_Object = dict[str, Raw]

_OBJECT = msgspec.json.Decoder(_Object)
_TEXT = msgspec.json.Decoder(str)
_STATUS = msgspec.json.Decoder(int)
_FIRST_ERROR_STATUS = 400
_VERSION_PREFIX = "/v1"


def read_object(text: bytes | Raw) -> _Object:
    """Return the fields of an object; without any if it is invalid, which is reported later."""
    try:
        # Check UTF-8, because the decoder does not check the raw values of fields.
        bytes(text).decode()
        return _OBJECT.decode(text)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return {}


def translate_batch_line(
    translator: OfflineTranslator, fields: _Object, line: bytes
) -> Translation | None:
    """Translate the body in a line with these fields; None if it is no line of a batch file."""
    if "custom_id" not in fields:
        return None
    if "body" in fields:
        return _translate_request(translator, fields)
    return _translate_reply(translator, fields, line) if "response" in fields else None


def _translate_request(translator: OfflineTranslator, fields: _Object) -> Translation:
    url = _target_url(translator, fields)
    translation = translator.translate(bytes(fields["body"]), "request")
    fields["body"] = Raw(translation.body)
    fields["url"] = Raw(msgspec.json.encode(url))
    return _with_body(translation, fields)


def _target_url(translator: OfflineTranslator, fields: _Object) -> str:
    """Return the path for requests of the target; raise if the source's path is wrong."""
    source_path = _VERSION_PREFIX + get_dialect(translator.source).path
    target_path = _VERSION_PREFIX + get_dialect(translator.target).path
    try:
        url = _TEXT.decode(fields.get("url", Raw(b'""')))
    except msgspec.DecodeError:
        raise InvalidRequestError("url", "must be a string") from None
    if url and not _is_path(url, source_path):
        message = f"must be {source_path} for a {translator.source} request, not {url}"
        raise InvalidRequestError("url", message)
    return url if _is_path(url, target_path) else target_path


def _is_path(url: str, path: str) -> bool:
    """Whether a URL ends with a path; its version may differ or be missing."""
    return url.rstrip("/").endswith(path.removeprefix(_VERSION_PREFIX))


def _translate_reply(translator: OfflineTranslator, fields: _Object, line: bytes) -> Translation:
    response = read_object(fields["response"])
    body = response.get("body")
    if body is None:
        # The request was not sent or has expired, so there is no reply to translate.
        return Translation(line)
    status = _read_status(response)
    kind: Kind = "error" if status >= _FIRST_ERROR_STATUS else "reply"
    translation = replace(translator, status=status).translate(bytes(body), kind)
    response["body"] = Raw(translation.body)
    fields["response"] = Raw(msgspec.json.encode(response))
    return _with_body(translation, fields)


def _read_status(response: _Object) -> int:
    try:
        return _STATUS.decode(response.get("status_code", Raw(b"200")))
    except msgspec.DecodeError:
        raise InvalidRequestError("response.status_code", "must be a number") from None


def _with_body(translation: Translation, fields: _Object) -> Translation:
    return msgspec.structs.replace(translation, body=msgspec.json.encode(fields))
