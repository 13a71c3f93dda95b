"""Carry reasoning across turns: sealed in the client's items or stored by call id."""
