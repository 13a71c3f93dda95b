"""Conversations that have become too long: summed up by a backend, sealed, opened again."""
