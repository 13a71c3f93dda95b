"""Conversion of stored data: files of requests, replies, training examples and threads."""
