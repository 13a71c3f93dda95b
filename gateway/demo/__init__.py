"""The built-in demo backend: it calls the tools of a request, in any dialect, without a model.

It shows the whole loop, from the question through tool calls and their outputs to a final text,
on a new installation and without an API key.
"""
