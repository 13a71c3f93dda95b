"""Recordings of exchanges: how they are written, read, redacted, compared and replayed."""
