"""Logging, metrics, traces and the record of each exchange."""
