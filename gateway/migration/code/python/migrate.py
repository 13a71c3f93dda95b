"""The migration of one Python source."""

import re

from gateway.migration.code.findings import SourceResult
from gateway.migration.code.python.edits import Edits
from gateway.migration.code.python.history import HistoryMigration
from gateway.migration.code.python.replies import ReplyMigration
from gateway.migration.code.python.report import Report
from gateway.migration.code.python.requests import RequestMigration
from gateway.migration.code.python.source import Source

# A source without any of these words has nothing to migrate.
_WORDS = re.compile(r"function|ChatCompletion|openai\.error")


def migrate_python(text: str) -> SourceResult:
    """Find the legacy code in a source, and rewrite it if all of it can be rewritten.

    Nothing is rewritten otherwise, because a program that sends tools and returns the results of
    functions does not work. Raises `libcst.ParserSyntaxError`.
    """
    if not _WORDS.search(text):
        return SourceResult((), text, text)
    source = Source(text)
    report = Report(source)
    replies = ReplyMigration(source, report)
    replies.migrate()
    HistoryMigration(source, report, replies).migrate()
    RequestMigration(source, report).migrate()
    findings = tuple(sorted(set(report.findings)))
    if not report.open:
        rewritten = report.edits.apply(source.module).code if findings else text
        return SourceResult(findings, rewritten, text)
    comments = Edits()
    for statement, reason in report.open:
        comments.add_comment(statement, reason)
    return SourceResult(findings, None, comments.apply(source.module).code)
