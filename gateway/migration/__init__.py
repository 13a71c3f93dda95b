"""Migration of legacy `functions` and `function_call`, in source code and stored data."""
