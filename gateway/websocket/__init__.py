"""The WebSocket mode of the Responses API: many turns over one connection, which caches them."""
