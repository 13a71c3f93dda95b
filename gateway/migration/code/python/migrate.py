"""The migration of the Python sources of a program."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

import libcst as cst

from gateway.migration.code.findings import SourceResult
from gateway.migration.code.python.annotations import TypeMigration
from gateway.migration.code.python.call_ids import CallIds
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.frameworks import FrameworkMigration
from gateway.migration.code.python.history import HistoryMigration
from gateway.migration.code.python.leftovers import Leftovers
from gateway.migration.code.python.program import Program
from gateway.migration.code.python.replies import ReplyMigration
from gateway.migration.code.python.report import Report
from gateway.migration.code.python.requests import RequestMigration
from gateway.migration.code.python.responses import ResponsesMigration
from gateway.migration.code.python.roles import RoleMigration
from gateway.migration.code.python.sdk_client import OldClientMigration
from gateway.migration.code.python.sdk_replies import OldReplyMigration
from gateway.migration.code.python.target import TARGETS
from gateway.migration.code.rules import RULES

# What a program that uses the API has; other libraries also have functions and roles.
_EVIDENCE = re.compile(
    r"\b(?:openai|litellm|langchain|llama_index)|chat/completions|chat\.completions|ChatCompletion"
    r"|finish_reason|\bchoices\b|(?:message|msg|delta|reply|choice)\w*(?:\.|\[[\"'])function_call"
)


def migrate_python(code: str, to: str = "chat") -> SourceResult:
    """Migrate a program of one module; raises `libcst.ParserSyntaxError`."""
    path = Path("main.py")
    return migrate_modules({path: cst.parse_module(code)}, to)[path]


def migrate_modules(
    modules: Mapping[Path, cst.Module], to: str = "chat", rules: Collection[str] = RULES
) -> dict[Path, SourceResult]:
    """Find the legacy code in the modules of a program, and rewrite it.

    Rules that depend on each other are applied in all modules or in none, because a program that
    sends tools and returns the results of functions does not work.
    """
    if not any(_EVIDENCE.search(module.code) for module in modules.values()):
        return {path: SourceResult((), module.code) for path, module in modules.items()}
    program = Program(modules)
    context = Context(program, TARGETS[to])
    OldClientMigration(context).migrate()
    OldReplyMigration(context).migrate()
    TypeMigration(context).migrate()
    ReplyMigration(context).migrate()
    ids = CallIds(context)
    HistoryMigration(context, ids).migrate()
    RoleMigration(context, ids).migrate()
    context.streams.migrate()
    context.loops.migrate(context.target)
    # A program without legacy functions keeps its API.
    if to == "responses" and "functions" in context.report.families:
        ResponsesMigration(context).migrate()
    RequestMigration(context).migrate()
    FrameworkMigration(context).migrate()
    Leftovers(context).find()
    return _results(context.report, program, rules)


def _results(report: Report, program: Program, rules: Collection[str]) -> dict[Path, SourceResult]:
    report.decide(rules)
    edits = report.prepare(rules)
    results: dict[Path, SourceResult] = {}
    for path, module in program.modules.items():
        found = [one for one in report.findings.get(module, []) if one.rule in rules]
        findings = tuple(sorted({report.with_reason(one) for one in found}))
        is_changed = edits.has_changes(module, program.top)
        text = edits.apply(module, program.top) if is_changed else module.code
        results[path] = SourceResult(findings, text)
    return results
