"""Validators of our output, which raise AssertionError with a readable message.

`sdk` uses the installed openai package, `open_responses` has the rules of the Open
Responses specification, and `fields` lists the fields of requests. None imports `adapters`.
"""
