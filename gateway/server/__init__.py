"""The HTTP server: uvicorn, its workers and its protocols."""
