"""How requests get to the backends."""

from gateway.transport.choose import make_transport
from gateway.transport.direct import DirectTransport
from gateway.transport.pool import Limits
from gateway.transport.target import Content, Target

__all__ = ["Content", "DirectTransport", "Limits", "Target", "make_transport"]
