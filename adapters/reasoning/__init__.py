"""Reasoning that is sent back to its backend: in the items of the client or stored by call."""
