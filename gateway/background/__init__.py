"""Responses that are created in the background, by any node.

The store has each of them with its events. The node that holds the lease creates the response;
every node can show it, replay its events and cancel it.
"""
