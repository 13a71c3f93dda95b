"""Responses that are made in the background: on any node, whoever asks and whoever goes away.

The store knows each of them with its events. The node that holds its lease works at it; every node
shows it, tells its events and takes requests to end it.
"""
