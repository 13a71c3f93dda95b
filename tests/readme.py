"""Makes the table of losses in the README from the snapshots of losses.

python -m tests.readme        writes it into the README
"""

import re
from pathlib import Path

from tests.judges.fields import request_fields

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
LOSSES = ROOT / "snapshots" / "losses"

BEGIN = "<!-- losses: begin -->\n"
END = "<!-- losses: end -->\n"

COLUMNS = {
    "refused": ("refused",),
    "left out": ("dropped",),
    "said differently": ("changed",),
    "made up": ("invented",),
}
LINE = re.compile(r"(?P<severity>\w+) +(?P<action>\w+) +(?P<path>[^:]+): (?P<why>.*)")


def table() -> str:
    """Make the table: what becomes of which field, for each pair of dialects."""
    known = set[str]().union(*request_fields().values())
    head = f"| from, to | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}\n"
    return head + "".join(row(page, known) for page in sorted(LOSSES.glob("*.txt")))


def row(page: Path, known: set[str]) -> str:
    source, target = page.stem.split("-to-")
    losses = [found for line in page.read_text().splitlines() if (found := LINE.match(line))]
    cells = (
        ", ".join(
            f"`{path}`"
            for path in dict.fromkeys(loss["path"] for loss in losses if loss["action"] in actions)
            if is_known(path, known)
        )
        for actions in COLUMNS.values()
    )
    return f"| `{source}` → `{target}` | {' | '.join(cells)} |\n"


def is_known(path: str, known: set[str]) -> bool:
    """Tell whether a specification knows the field; those that none knows have no row."""
    return path.replace("[*]", "").rpartition(".")[2] in known


def renewed(text: str) -> str:
    """Give the README with the table made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    README.write_text(renewed(README.read_text()))
