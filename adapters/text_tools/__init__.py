"""Calls that a model writes into its text, where its server leaves them.

One file a format: each reads a block of calls from its marker on. `scanner` finds the blocks in a
text that comes in pieces, `stage` makes calls of them in a reply or in a stream. A block is told
when it is whole: so nothing is told as a call that turns out to be none.
"""
