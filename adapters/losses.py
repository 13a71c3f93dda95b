"""Losses: what a translation dropped, changed or invented, and the reason.

Every difference between what was received and what is sent is reported as a loss. Its severity
decides, together with the policy, whether the request is rejected:

| severity   | meaning                                        | `report` | `refuse` |
|------------|------------------------------------------------|----------|----------|
| adapted    | sent in another form, and restored in replies; | reported | reported |
|            | or not visible to the model                    |          |          |
| hint       | the reply may be slightly different            | reported | reported |
| capability | something that was requested will not happen   | reported | rejected |
| meaning    | the backend would receive a different request  | rejected | rejected |

A reply is never rejected because of a loss.

The path of a loss is a field that its reader can look up. For a request it is the client's own
field; for a field that the client did not send and cannot send, it is the backend's name. For a
reply, `ReplyLosses` describes it. `summarize_losses` returns a short form for people.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from adapters.errors import UnsupportedRequestError

# From the least to the gravest.
Severity = Literal["adapted", "hint", "capability", "meaning"]
Action = Literal["dropped", "changed", "invented"]
Policy = Literal["report", "refuse"]

_FIRST_FIELD = re.compile(r"[^.\[]*")
_INDEX = re.compile(r"\[\d+\]")
_ANY_INDEX = re.compile(r"\[\*\]")
_GRAVEST_FIRST: tuple[Severity, ...] = get_args(Severity)[::-1]
_ACTIONS: tuple[Action, ...] = get_args(Action)


# Clients read the key `why` in reports of translations and in a response header.
class Loss(Struct, frozen=True, rename={"reason": "why"}):
    """One difference between what was received and what is sent."""

    action: Action
    path: str
    reason: str
    severity: Severity = "hint"

    def __str__(self) -> str:
        return f"{self.action} {self.path}: {self.reason}"


class LossGroup(Struct, frozen=True):
    """Losses that differ only in the indices of their paths."""

    # If there are several, its path has `*` in place of the indices.
    loss: Loss
    count: int

    def __str__(self) -> str:
        loss = self.loss
        return (
            str(loss)
            if self.count == 1
            else f"{loss.action} {loss.path} x{self.count}: {loss.reason}"
        )


def without_indices(loss: Loss) -> Loss:
    """Return a loss with `*` in place of the indices in its path."""
    return replace(loss, path=_INDEX.sub("[*]", loss.path))


def summarize_losses(losses: Iterable[Loss]) -> list[LossGroup]:
    """Group equal losses, the gravest first, without those that are only adapted."""
    groups: dict[Loss, list[Loss]] = {}
    for loss in losses:
        if loss.severity != "adapted":
            groups.setdefault(without_indices(loss), []).append(loss)
    summary = [
        LossGroup(group[0] if len(group) == 1 else general, len(group))
        for general, group in groups.items()
    ]
    return sorted(summary, key=_gravity)


def _gravity(group: LossGroup) -> tuple[int, int]:
    """Return the rank of a loss: by severity, then with what was dropped first."""
    loss = group.loss
    return _GRAVEST_FIRST.index(loss.severity), _ACTIONS.index(loss.action)


class Losses:
    """The losses of one translation, in the order of their reports and without duplicates.

    `client_names` maps the fields of the IR to those of the client's dialect, so that a path names
    what the client sent (`text.verbosity`, not `verbosity`). In its paths, `[*]` stands for any
    index. `policy` is None for the losses of a
    reply, which are never rejected. For those of a request, the methods raise
    `UnsupportedRequestError` if the policy rejects the loss.
    """

    def __init__(
        self, policy: Policy | None = "report", client_names: Mapping[str, str] | None = None
    ) -> None:
        self._policy = policy
        self._client_names: Mapping[str, str] = client_names or {}
        # The same, once names are added.
        self._renamed: dict[str, str] = {}
        # Used as an ordered set.
        self._losses: dict[Loss, None] = {}

    def dropped(
        self,
        path: str,
        reason: str,
        severity: Severity = "hint",
        *,
        code: str | None = None,
        client_path: bool = False,
    ) -> None:
        """Report that something was dropped.

        `code` is the error code of a rejected request. `client_path`: whether the path already
        uses the client's field names.
        """
        path = path if client_path else self._client_path(path)
        self._report("dropped", path, reason, severity, code)

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
        """Translate a path to the client's names: as much of its beginning as is known."""
        names = self._client_names
        if path in names:
            return names[path]
        if path.isidentifier():
            return path
        match = _FIRST_FIELD.match(path)
        first = match.group() if match else ""
        if path[len(first) : len(first) + 1] == "[":
            return self._path_in_list(path)
        known = path
        while known not in names and known != first:
            known = known.rpartition(".")[0]
        return names.get(known, known) + path[len(known) :]

    def _path_in_list(self, path: str) -> str:
        """Translate a path with an index after its first field."""
        masked = known = _INDEX.sub("[*]", path)
        while known not in self._client_names:
            shorter = known.removesuffix("[*]")
            known = shorter if shorter != known else known.rpartition(".")[0]
            if not known:
                return path
        renamed = self._client_names[known] + masked[len(known) :]
        indices = iter(_INDEX.findall(path))
        return _ANY_INDEX.sub(lambda _: next(indices), renamed)

    def extend(self, losses: Iterable[Loss]) -> None:
        """Add the losses of a part of the translation."""
        self._losses |= dict.fromkeys(losses)

    def clear(self) -> None:
        """Remove all losses."""
        self._losses.clear()

    def place(self, path: str, client_path: str) -> None:
        """Store where the client receives the value that has this path in a backend's reply."""

    def client_path(self, path: str) -> str:
        """Return the path with the client's field names."""
        return self._client_path(path)

    def rename(self, names: Mapping[str, str]) -> None:
        """Add names of fields, because the client used others than those of its dialect."""
        if not self._renamed:
            self._renamed = dict(self._client_names)
            self._client_names = self._renamed
        self._renamed.update(names)

    def withdraw(self, path: str, reasons: Collection[str]) -> None:
        """Remove losses of a path with these reasons, which do not apply to the client."""
        for loss in [*self._losses]:
            if loss.path == path and loss.reason in reasons:
                del self._losses[loss]

    def forget(self, path: str) -> None:
        """Remove the losses of a value that is dropped after all, and of its fields."""
        path = self._client_path(path)
        for loss in [*self._losses]:
            if loss.path == path or loss.path.startswith((f"{path}.", f"{path}[")):
                del self._losses[loss]

    def move(self, field: str, item_path: str) -> None:
        """Prefix the paths of a field and of its inner fields, which are those of an item."""
        names = {name: own for name, own in self._client_names.items() if name.startswith(field)}
        self.rename({name: f"{item_path}.{own}" for name, own in names.items()})

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._losses)

    def __len__(self) -> int:
        return len(self._losses)


class ReplyLosses(Losses):
    """The losses of a reply, whose paths belong to two objects.

    What was dropped has its path in the backend's reply. What was changed or invented has its path
    in the client's reply, which is known only after the writer has placed it. Both are paths in
    complete replies, also for streams, whose pieces have no place of their own.
    """

    def __init__(self, client_names: Mapping[str, str] | None = None) -> None:
        super().__init__(None, client_names)
        # The paths in the client's reply by those in the backend's.
        self._places: dict[str, str] = {}

    def dropped(
        self,
        path: str,
        reason: str,
        severity: Severity = "hint",
        *,
        code: str | None = None,
        client_path: bool = True,
    ) -> None:
        """Report that something was dropped; the path is the backend's."""
        super().dropped(path, reason, severity, code=code, client_path=client_path)

    def place(self, path: str, client_path: str) -> None:
        """Store where the client receives the value that has this path in a backend's reply."""
        if path:
            self._places[path] = client_path

    def _client_path(self, path: str) -> str:
        # It is translated when the losses are read.
        return path

    def rename(self, names: Mapping[str, str]) -> None:
        """Ignore the names, which belong to the backend's reply."""

    def client_path(self, path: str) -> str:
        """Return the path in the client's reply of a value that was changed or invented."""
        known = self._places.get(path)
        return super()._client_path(path) if known is None else known

    def __iter__(self) -> Iterator[Loss]:
        if not self._losses:
            return
        losses = list(super().__iter__())
        dropped = {loss.path for loss in losses if loss.action == "dropped"}
        for loss in losses:
            if loss.action == "dropped":
                yield loss
            elif loss.path in self._places or loss.path not in dropped:
                # The client does not receive changes of what is dropped.
                yield replace(loss, path=self.client_path(loss.path))
