"""The intermediate representation: neutral types and events between dialects."""
