"""What can go wrong with the store.

DragomanError
└── Unavailable       the database did not do what it was asked
    ├── Away          … nor would it do anything else now: it is locked, full, or not there
    └── Uncertain     … or perhaps it did: it was lost in the middle of a commit

StateError            the service cannot start with this database
└── NewerSchema       it was made by a later version

That something is not there is no error here: methods then give None or False.
"""

from adapters import DragomanError


class StoreUnavailableError(DragomanError):
    """The database cannot be reached, or failed."""

    status = 503
    code = "state_unavailable"
    kind = "server_error"


class DatabaseUnavailableError(StoreUnavailableError):
    """The database does nothing for anybody, for now."""


class CommitOutcomeUnknownError(StoreUnavailableError):
    """The database failed while it was committing: whether it did, nobody knows."""


class StoreError(Exception):
    """The database cannot be used."""


class NewerSchemaError(StoreError):
    """The database was made by a later version of the gateway."""
