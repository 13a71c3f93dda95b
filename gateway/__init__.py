"""The gateway: the HTTP service, its backends, its database and the command line."""
