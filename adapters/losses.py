"""Losses: what a translation dropped, changed or invented, where, and why.

Nothing is left out without a line here. How grave a loss is decides what becomes of the request:

| severity   | meaning                                        | `report`    | `refuse`    |
|------------|------------------------------------------------|-------------|-------------|
| hint       | the answer may be a little different           | carried on  | carried on  |
| capability | something that was asked for will not happen   | carried on  | `Refused`   |
| meaning    | the answer would be to another question        | `Refused`   | `Refused`   |

A reply is never refused: the model has spoken, and what could be said of it is worth having.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from adapters.errors import UnsupportedRequestError

_ROOT = re.compile(r"[^.\[]*")

Severity = Literal["hint", "capability", "meaning"]
Action = Literal["dropped", "changed", "invented"]
Policy = Literal["report", "refuse"]


# Clients read the key `why` in the reports of `/translate` and in a response header.
class Loss(Struct, frozen=True, rename={"reason": "why"}):
    """One thing that the other side will not see as it was said."""

    action: Action
    path: str
    reason: str
    severity: Severity = "hint"

    def __str__(self) -> str:
        return f"{self.action} {self.path}: {self.reason}"


class Losses:
    """The losses of one translation, in the order in which they were met.

    `names` says how the caller's dialect spells a field of the hub, so that a path names what the
    caller wrote (`text.verbosity`) and not what the hub calls it (`verbosity`).
    """

    def __init__(
        self, policy: Policy | None = "report", names: Mapping[str, str] | None = None
    ) -> None:
        # None: a reply, of which nothing is refused.
        self._policy = policy
        self._names: Mapping[str, str] = names or {}
        self._losses: list[Loss] = []
        self._seen: set[Loss] = set()

    def dropped(
        self,
        path: str,
        reason: str,
        severity: Severity = "hint",
        *,
        code: str | None = None,
        exact: bool = False,
    ) -> None:
        """Record that something was left out.

        `code` is for the error, if it is refused; an `exact` path is the caller's own already.
        """
        self._record("dropped", path if exact else self._client_path(path), reason, severity, code)

    def changed(self, path: str, reason: str, severity: Severity = "hint") -> None:
        """Record that something was said differently."""
        self._record("changed", self._client_path(path), reason, severity)

    def invented(self, path: str, reason: str, severity: Severity = "hint") -> None:
        """Record that something was added which nobody said."""
        self._record("invented", self._client_path(path), reason, severity)

    def _record(
        self, action: Action, path: str, reason: str, severity: Severity, code: str | None = None
    ) -> None:
        loss = Loss(action, path, reason, severity)
        if self._refuses(severity):
            raise UnsupportedRequestError(loss.path, reason, code)
        if loss not in self._seen:
            self._seen.add(loss)
            self._losses.append(loss)

    def _client_path(self, path: str) -> str:
        """Spell a path as the caller would: all of it, or its first name."""
        whole = self._names.get(path)
        if whole is not None:
            return whole
        root = _ROOT.match(path)
        first = root.group() if root else ""
        return self._names.get(first, first) + path[len(first) :]

    def _refuses(self, severity: Severity) -> bool:
        if self._policy is None or severity == "hint":
            return False
        return severity == "meaning" or self._policy == "refuse"

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._losses)

    def __len__(self) -> int:
        return len(self._losses)
