"""Summaries of long conversations, which clients carry sealed in `compaction` items."""
