"""Tool calls as text, for models and backends without native tool calls.

`formats` has a parser for each format in which models write calls, `scanner` finds the calls in a
text that comes in pieces, `stage` turns them into real calls, and `prompt` describes the tools to a
backend that has none. A call is emitted only when it is complete, so text that turns out to be no
call stays text.
"""
