"""The OpenAPI document at `/schema`: types of all requests and replies."""
