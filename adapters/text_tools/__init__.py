"""Tool calls as text, for models and backends without native tool calls.

`formats` has a parser for each format in which models write calls, `scanner` finds the calls in a
streamed text, `stage` converts them to real calls, and `prompt` describes the tools to a backend
without tools. A call is emitted only when it is complete, so other text always stays text.
"""
