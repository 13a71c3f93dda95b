"""Translation of JSON Lines: one request or reply per line.

In OpenAI's batch files, a line contains the body of a request or a reply:
`{"custom_id", "method", "url", "body"}` or `{"custom_id", "response": {"body"}}`.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath

import msgspec
from msgspec import Raw

from adapters import DragomanError, InvalidRequestError, get_dialect
from adapters.sse import BYTE_ORDER_MARK
from gateway.dry_run import Kind, OfflineTranslator, Translation
from gateway.terminal import fail, print_error, print_losses, print_message, write_output

_Object = dict[str, Raw]

_SUFFIXES = (".jsonl", ".ndjson")
_OBJECT = msgspec.json.Decoder(_Object)
_TEXT = msgspec.json.Decoder(str)
_STATUS = msgspec.json.Decoder(int)
_FIRST_ERROR_STATUS = 400
_VERSION_PREFIX = "/v1"


def is_jsonl(name: str) -> bool:
    """Whether the name of a file has a suffix of JSON Lines."""
    return PurePath(name).suffix.lower() in _SUFFIXES


def describe_kind(kind: Kind) -> str:
    """Return the message of `--verbose`."""
    return f"detected {'an' if kind == 'error' else 'a'} {kind}"


class JsonlTranslator:
    """Translates lines one by one, so that a file may be larger than the memory."""

    def __init__(
        self,
        translator: OfflineTranslator,
        kind: Kind | None = None,
        *,
        keep_going: bool = False,
        verbose: bool = False,
    ) -> None:
        self._translator = translator
        # None if the kind of each line is detected.
        self._kind: Kind | None = kind
        self._keep_going = keep_going
        self._verbose = verbose

    def translate(self, lines: Iterable[bytes]) -> bool:
        """Write the translation of each line; return whether all succeeded."""
        succeeded = True
        for number, line in enumerate(lines, start=1):
            text = line.removeprefix(BYTE_ORDER_MARK).strip()
            if text:
                succeeded &= self._write_line(text, f"line {number}: ")
        return succeeded

    def _write_line(self, line: bytes, prefix: str) -> bool:
        try:
            translation = self._translate_line(line, prefix)
        except DragomanError as error:
            if not self._keep_going:
                fail(f"{prefix}{error}")
            print_error(f"{prefix}{error}")
            write_output(self._translator.own_error(error) + b"\n")
            return False
        write_output(translation.body + b"\n")
        print_losses(translation.losses, prefix)
        return True

    def _translate_line(self, line: bytes, prefix: str) -> Translation:
        fields = _read_object(line)
        if {"custom_id", "body"} <= fields.keys():
            return self._translate_batch_request(fields)
        if {"custom_id", "response"} <= fields.keys():
            return self._translate_batch_reply(fields, line)
        kind = self._kind
        if kind is None:
            kind = self._translator.detect_kind(line)
            if self._verbose:
                print_message(prefix + describe_kind(kind))
        return self._translator.translate(line, kind)

    def _translate_batch_request(self, fields: _Object) -> Translation:
        url = self._target_url(fields)
        translation = self._translator.translate(bytes(fields["body"]), "request")
        fields["body"] = Raw(translation.body)
        fields["url"] = Raw(msgspec.json.encode(url))
        return _with_body(translation, fields)

    def _target_url(self, fields: _Object) -> str:
        """Return the path for requests of the target; raise if the source's path is wrong."""
        source = self._translator.source
        source_path = _VERSION_PREFIX + get_dialect(source).path
        target_path = _VERSION_PREFIX + get_dialect(self._translator.target).path
        try:
            url = _TEXT.decode(fields.get("url", Raw(b'""')))
        except msgspec.DecodeError:
            raise InvalidRequestError("url", "must be a string") from None
        if url and not _is_path(url, source_path):
            message = f"must be {source_path} for a {source} request, not {url}"
            raise InvalidRequestError("url", message)
        return url if _is_path(url, target_path) else target_path

    def _translate_batch_reply(self, fields: _Object, line: bytes) -> Translation:
        response = _read_object(fields["response"])
        body = response.get("body")
        if body is None:
            # The request was not sent or has expired, so there is no reply to translate.
            return Translation(line)
        status = _read_status(response)
        kind: Kind = "error" if status >= _FIRST_ERROR_STATUS else "reply"
        translation = replace(self._translator, status=status).translate(bytes(body), kind)
        response["body"] = Raw(translation.body)
        fields["response"] = Raw(msgspec.json.encode(response))
        return _with_body(translation, fields)


def _read_object(text: bytes | Raw) -> _Object:
    """Return the fields of a line; without any if it is invalid, which is reported later."""
    try:
        # Check UTF-8, because the decoder does not check the raw values of fields.
        bytes(text).decode()
        return _OBJECT.decode(text)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return {}


def _is_path(url: str, path: str) -> bool:
    """Whether a URL ends with a path; its version may differ or be missing."""
    return url.rstrip("/").endswith(path.removeprefix(_VERSION_PREFIX))


def _read_status(response: _Object) -> int:
    try:
        return _STATUS.decode(response.get("status_code", Raw(b"200")))
    except msgspec.DecodeError:
        raise InvalidRequestError("response.status_code", "must be a number") from None


def _with_body(translation: Translation, fields: _Object) -> Translation:
    return msgspec.structs.replace(translation, body=msgspec.json.encode(fields))
