"""The OpenAPI document at `/schema`, with the types of all requests and replies."""
