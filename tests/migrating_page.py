"""Update docs/migrating.md: the rewritten code, the converted data and the table of rules.

python -m tests.migrating_page

Each table of the page has a block before and a block after the migration; the second one is
generated, for the target that the head of the table names.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from gateway.migration.code.rules import RULES
from gateway.migration.code.run import migrate_files
from gateway.migration.data.records import convert_record
from gateway.migration.data.validation import Target
from tests.losses_page import ROOT

PAGE = ROOT / "docs" / "migrating.md"

_EXAMPLE = re.compile(
    r"(?P<head><table>(?:(?!</table>).)*?--to (?P<target>chat|responses).*?)"
    r"```(?P<language>python|json)\n(?P<before>.*?)```"
    r"(?P<between>.*?)```(?:python|json)\n.*?```",
    re.DOTALL,
)
_RULES = re.compile(r"(?<=\| rule \| family \| what it finds \|\n\|---\|---\|---\|\n)(?:\|.*\n)*")


def page(text: str) -> str:
    """Return the page with current generated parts."""
    rules = "".join(
        f"| `{name}` | {rule.family} | {rule.summary} |\n" for name, rule in RULES.items()
    )
    return _EXAMPLE.sub(_with_result, _RULES.sub(lambda _: rules, text))


def _with_result(match: re.Match[str]) -> str:
    target: Target = "chat" if match["target"] == "chat" else "responses"
    migrate = rewrite if match["language"] == "python" else convert
    fence = f"```{match['language']}\n"
    before, after = match["before"], migrate(match["before"], target)
    return f"{match['head']}{fence}{before}```{match['between']}{fence}{after}```"


def rewrite(code: str, target: Target) -> str:
    """Return the rewritten program."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "program.py")
        file.write_text(code)
        (result,) = migrate_files([file], lambda _: None, target).files
    assert all(finding.reason is None for finding in result.findings), result.findings
    return result.text


def convert(record: str, target: Target) -> str:
    """Return the converted record."""
    converted = convert_record(record.strip().encode(), target).body
    return msgspec.json.format(converted, indent=2).decode() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
