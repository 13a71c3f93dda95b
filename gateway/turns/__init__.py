"""Turns: load the history of a request, and save the request with its reply."""
