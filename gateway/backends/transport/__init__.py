"""How requests get to the backends."""

from gateway.backends.pool import Limits
from gateway.backends.transport.choose import make_transport
from gateway.backends.transport.direct import DirectTransport
from gateway.backends.transport.target import Content, Target

__all__ = ["Content", "DirectTransport", "Limits", "Target", "make_transport"]
