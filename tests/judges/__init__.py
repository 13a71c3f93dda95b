"""Judges of what we write: bytes go in, AssertionError with a readable message comes out.

`sdk` lets the installed openai package decide, `open_responses` holds the rules of the Open
Responses specification, and `fields` lists what a request may say. None of them knows `adapters`.
"""
