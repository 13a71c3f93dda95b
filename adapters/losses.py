"""Losses: what a translation dropped, changed or invented, and the reason.

Every difference between what was received and what is sent is reported as a loss. Its severity
decides, together with the policy, whether the request is rejected:

| severity   | meaning                                      | `report` | `refuse` |
|------------|----------------------------------------------|----------|----------|
| hint       | the reply may be slightly different          | reported | reported |
| capability | something that was requested will not happen | reported | rejected |
| meaning    | the reply would be to another request        | rejected | rejected |

A reply is never rejected because of a loss.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from adapters.errors import UnsupportedRequestError

Severity = Literal["hint", "capability", "meaning"]
Action = Literal["dropped", "changed", "invented"]
Policy = Literal["report", "refuse"]

_FIRST_NAME = re.compile(r"[^.\[]*")


# Clients read the key `why` in reports of translations and in a response header.
class Loss(Struct, frozen=True, rename={"reason": "why"}):
    """One difference between what was received and what is sent."""

    action: Action
    path: str
    reason: str
    severity: Severity = "hint"

    def __str__(self) -> str:
        return f"{self.action} {self.path}: {self.reason}"


class Losses:
    """The losses of one translation, in their order and without repetitions.

    `names` maps the fields of the IR to those of the client's dialect, so that a path names what
    the client sent (`text.verbosity`, not `verbosity`). The policy of a reply is None.
    """

    def __init__(
        self, policy: Policy | None = "report", names: Mapping[str, str] | None = None
    ) -> None:
        self._policy = policy
        self._names: Mapping[str, str] = names or {}
        # A dictionary is an ordered set.
        self._losses: dict[Loss, None] = {}

    def dropped(
        self,
        path: str,
        reason: str,
        severity: Severity = "hint",
        *,
        code: str | None = None,
        exact: bool = False,
    ) -> None:
        """Report that something was dropped.

        `code` is the error code of a rejected request; an `exact` path is already the client's.
        """
        self._report("dropped", path if exact else self._client_path(path), reason, severity, code)

    def changed(self, path: str, reason: str, severity: Severity = "hint") -> None:
        """Report that something was changed."""
        self._report("changed", self._client_path(path), reason, severity)

    def invented(self, path: str, reason: str, severity: Severity = "hint") -> None:
        """Report that something was added."""
        self._report("invented", self._client_path(path), reason, severity)

    def _report(
        self, action: Action, path: str, reason: str, severity: Severity, code: str | None = None
    ) -> None:
        rejected = severity == "meaning" or (severity == "capability" and self._policy == "refuse")
        if rejected and self._policy is not None:
            raise UnsupportedRequestError(path, reason, code)
        self._losses[Loss(action, path, reason, severity)] = None

    def _client_path(self, path: str) -> str:
        """Return a path with the client's name for all of it, or for its first field."""
        if path in self._names:
            return self._names[path]
        match = _FIRST_NAME.match(path)
        first = match.group() if match else ""
        return self._names.get(first, first) + path[len(first) :]

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._losses)

    def __len__(self) -> int:
        return len(self._losses)
