"""Roles of accounts in a company, one of which is called "function"."""

ROLES = [
    {"role": "person", "name": "ada", "content": "all"},
    {"role": "function", "name": "billing", "content": "invoices"},
    {"role": "function", "name": "support", "content": "tickets"},
]


def accounts(role):
    return [entry["name"] for entry in ROLES if entry["role"] == role]


print("functional accounts:", ", ".join(accounts("function")))
