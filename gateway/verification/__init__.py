"""Verification of rewritten programs: both versions are run, and their requests are compared."""
