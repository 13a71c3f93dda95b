"""Migration of legacy `functions` and `function_call`, in stored data."""
