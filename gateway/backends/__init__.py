"""Routes, backend clients, model lists and the HTTP transport."""
