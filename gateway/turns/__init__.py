"""Turns: what a request continues, and what is stored of it and its reply."""
