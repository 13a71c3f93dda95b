"""Recordings: the folders of single exchanges, as they are written, read and redacted."""
