"""What can go wrong on a socket, beside what goes wrong with any request."""

from adapters import DragomanError


class OriginNotAllowedError(DragomanError):
    """A page of another site wants a socket, of which its user may know nothing."""

    status = 403
    code = "origin_not_allowed"
    kind = "permission_error"


class InvalidStreamIdError(DragomanError):
    """The name of a lane is none."""

    status = 400
    code = "invalid_stream_id"


class TooManyStreamsError(DragomanError):
    """The connection has as many lanes as it may have."""

    status = 400
    code = "websocket_stream_limit_reached"


class QueueFullError(DragomanError):
    """So much is waiting already that no more is taken."""

    status = 429
    code = "websocket_queue_limit_reached"
    kind = "rate_limit_error"


class ConnectionExpiredError(DragomanError):
    """The connection is as old as it may become; a new one can be opened at once."""

    status = 400
    code = "websocket_connection_limit_reached"
