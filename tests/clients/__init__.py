"""Real clients through the gateway: every dialect of a backend, streamed or not, sloppy or not."""
