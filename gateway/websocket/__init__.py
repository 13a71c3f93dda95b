"""WebSocket mode of the Responses API: many turns over one connection, which remembers them."""
