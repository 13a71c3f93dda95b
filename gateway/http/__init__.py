"""HTTP between the gateway and its clients: headers, bodies, authentication."""
