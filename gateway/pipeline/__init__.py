"""Serve a create request, from its body to the last byte of its reply."""
