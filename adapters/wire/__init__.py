"""Helpers for reading and writing JSON that several dialects share."""
