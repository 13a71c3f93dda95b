"""Transformations between a reader and a writer."""
