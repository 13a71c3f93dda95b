"""Translation of JSON Lines: one request, reply or line of a batch file per line."""

from collections.abc import Iterable
from pathlib import PurePath

from adapters import DragomanError
from adapters.sse import BYTE_ORDER_MARK
from gateway.batch import read_object, translate_batch_line
from gateway.dry_run import Kind, OfflineTranslator, Translation
from gateway.terminal import fail, print_error, print_losses, print_message, write_output

_SUFFIXES = (".jsonl", ".ndjson")


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
        translation = translate_batch_line(self._translator, read_object(line), line)
        if translation is not None:
            return translation
        kind = self._kind
        if kind is None:
            kind = self._translator.detect_kind(line)
            if self._verbose:
                print_message(prefix + describe_kind(kind))
        return self._translator.translate(line, kind)
