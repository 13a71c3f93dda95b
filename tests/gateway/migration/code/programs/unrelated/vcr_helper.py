"""Names of the fields whose values are removed from recordings."""

MASKED = {"api_key", "authorization", "function_call", "functions"}


def mask(body):
    return {key: "***" if key in MASKED else value for key, value in body.items()}


if "function_call" in MASKED:
    print(mask({"model": "m", "api_key": "secret"}))
