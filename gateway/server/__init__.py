"""The HTTP server: sockets, workers, protocols and shutdown."""
