"""Tools in words, for a backend that knows none.

`prompted` describes the tools in the system message and tells the model how to call them; `history`
writes the calls and outputs so far as text. What the model answers is read by `textcalls`.
"""
