"""The report of a migration: as text, as JSON or as SARIF 2.1.0, which code hosts display."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from adapters import __version__
from gateway.migration.code.findings import Finding
from gateway.migration.code.rules import RULES
from gateway.migration.code.run import FileResult

JsonObject = dict[str, object]


def text_report(files: Sequence[FileResult]) -> str:
    """Return one line for each finding."""
    lines = [
        f"{file.file.path}:{one.line}:{one.column} {one.rule} {_message(one)}\n"
        for file, one in _all(files)
    ]
    return "".join(lines)


def json_report(files: Sequence[FileResult]) -> str:
    """Return the findings as a list of objects."""
    found = [
        {"file": str(file.file.path), **msgspec.structs.asdict(one)} for file, one in _all(files)
    ]
    return _format({"version": 1, "findings": found})


def sarif_report(files: Sequence[FileResult]) -> str:
    """Return the findings for tools that read SARIF."""
    rules = [
        {"id": name, "shortDescription": {"text": rule.summary}, "help": {"text": rule.explanation}}
        for name, rule in RULES.items()
    ]
    results = [_sarif_result(file, one) for file, one in _all(files)]
    driver = {"name": "dragoman", "semanticVersion": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return _format({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _sarif_result(file: FileResult, finding: Finding) -> JsonObject:
    region = {"startLine": finding.line, "startColumn": finding.column}
    artifact = {"uri": file.file.path.as_posix()}
    return {
        "ruleId": finding.rule,
        "level": "warning",
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
    }


def _all(files: Sequence[FileResult]) -> Iterator[tuple[FileResult, Finding]]:
    return ((file, finding) for file in files for finding in file.findings)


def _message(finding: Finding) -> str:
    return finding.message if finding.reason is None else f"{finding.message}; {finding.reason}"


def _format(value: JsonObject) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def summary(files: Sequence[FileResult], *, written: bool) -> str:
    """Return the number of files and of findings by rule, and how many are left."""
    found = [finding for _, finding in _all(files)]
    if not found:
        return "no legacy code was found"
    left = sum(finding.reason is not None for finding in found)
    lines = [f"{len(found)} findings in {sum(bool(file.findings) for file in files)} files"]
    counts = Counter(finding.rule for finding in found)
    lines += [f"  {rule} x{count}" for rule, count in counts.most_common()]
    verb = "were rewritten" if written else "can be rewritten"
    lines.append(f"{len(found) - left} {verb}, {left} need a decision")
    return "\n".join(lines)


REPORTS: dict[str, Callable[[Sequence[FileResult]], str]] = {
    "text": text_report,
    "json": json_report,
    "sarif": sarif_report,
}
