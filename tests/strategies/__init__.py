"""Hypothesis strategies: IR values, the streams that encode them, and corrupted input."""
