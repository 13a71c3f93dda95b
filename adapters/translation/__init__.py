"""Translate requests, replies and streams between two dialects."""
