"""Responses that are created in the background.

The store contains each response with its events. The node that holds the lease of a response
creates it; every node can return it, replay its events and cancel it.
"""
