"""How many tokens a request has: counted by its backend, or here as well as can be."""
