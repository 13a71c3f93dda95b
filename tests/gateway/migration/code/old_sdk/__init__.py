"""A folder for the import path of programs that use version 0.28 of the OpenAI SDK."""
