"""The proof that a dialect is one package and one line in the registry.

`dialogue` is an invented dialect with its own form of requests, replies, streams and errors. It is
translated to and from all others, and served by the gateway, without any other change.
"""
