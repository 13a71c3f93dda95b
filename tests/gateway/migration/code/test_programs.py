"""Programs with legacy functions do the same when they have been rewritten.

A program is run before and after the rewrite, against a model that accepts only legacy functions,
only tools or only the Responses API, and that makes several calls at once unless it is asked not
to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from _pytest.mark.structures import ParameterSet

from tests.gateway.migration.code.model_server import Exchange
from tests.gateway.migration.code.programs import (
    DECISIONS,
    NOT_YET,
    PROGRAMS,
    TARGETS,
    Laboratory,
    Migration,
    Outputs,
    copy_program,
    laboratory,
    migrate,
    sources,
    texts,
)
from tests.gateway.migration.code.rewritten_text import check_notebook, check_source, code_of
from tests.judges.reading import JsonObject

# What the rewrite changes in a request; all else must be the same.
_CHANGED = frozenset((
    "messages", "functions", "function_call", "tools", "tool_choice", "parallel_tool_calls",
    "input", "instructions", "previous_response_id", "store",
))  # fmt: skip
_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    with laboratory() as opened:
        yield opened


def _cases(outcome: str) -> list[ParameterSet]:
    """Return the programs with this outcome, for each target."""
    return [
        _case(name, target)
        for target in TARGETS
        for name, program in PROGRAMS.items()
        if getattr(program, target) == outcome
    ]


def _all_targets(names: Iterable[str]) -> list[ParameterSet]:
    return [_case(name, target) for target in TARGETS for name in names]


def _case(name: str, target: str) -> ParameterSet:
    is_known = name in getattr(NOT_YET, target)
    # A program that has the expected outcome by now fails here, and is removed from the list.
    marks = [pytest.mark.xfail(reason="in not_yet.toml", strict=True)] if is_known else []
    return pytest.param(name, target, marks=marks, id=f"{target}-{name}")


def test_every_program_has_expectations() -> None:
    assert sources("legacy") == sorted(PROGRAMS)
    assert sources("person") == sorted(DECISIONS)
    assert NOT_YET.chat | NOT_YET.responses <= {*PROGRAMS, *DECISIONS, *sources("unrelated")}
    assert {name for name in NOT_YET.loops if PROGRAMS[name].loops} == NOT_YET.loops


@pytest.mark.parametrize("name", PROGRAMS)
def test_original_program_uses_legacy_functions(name: str, lab: Laboratory, tmp_path: Path) -> None:
    before = lab.before(name, tmp_path / "original")
    assert any(exchange.asked.functions for exchange in before.run.exchanges)
    assert any(exchange.answer.calls for exchange in before.run.exchanges)
    assert before.printed
    assert {called for called, _ in before.calls} == set(PROGRAMS[name].watched)


@pytest.mark.parametrize(("name", "target"), _cases("rewritten"))
def test_rewritten_program_does_the_same(
    name: str, target: str, lab: Laboratory, tmp_path: Path
) -> None:
    migration = _rewrite_and_run(name, target, lab, tmp_path)
    assert migration.exit_code == 0, migration.output


@pytest.mark.parametrize(("name", "target"), _cases("either"))
def test_program_is_rewritten_well_or_left(
    name: str, target: str, lab: Laboratory, tmp_path: Path
) -> None:
    if _rewrite_and_run(name, target, lab, tmp_path).exit_code == 3:
        copy_program("legacy", name, tmp_path / "left" / "program")
        _check_left(tmp_path / "left" / "program", target)


def _rewrite_and_run(name: str, target: str, lab: Laboratory, folder: Path) -> Migration:
    """Return the migration of a program, which must do the same if it was rewritten."""
    program = folder / "after" / "program"
    copy_program("legacy", name, program)
    original = texts(program)
    migration = migrate(program, target)
    assert migration.exit_code in (0, 3), migration.output
    again = migrate(program, target)
    assert (again.exit_code, again.texts) == (migration.exit_code, migration.texts)
    if migration.exit_code == 0:
        before = lab.before(name, folder / "before" / "program")
        after = lab.after(name, program, target)
        assert after.printed == before.printed
        assert after.calls == before.calls
        _check_wire(before, after)
        _check_texts(name, target, original, migration.texts)
    return migration


def _check_texts(
    name: str, target: str, original: Mapping[str, str], rewritten: Mapping[str, str]
) -> None:
    """Check that the changes are those that a reader expects."""
    for file, text in rewritten.items():
        check_source(code_of(file, original[file]), code_of(file, text), target)
        if file.endswith(".ipynb"):
            check_notebook(original[file], text)
        assert [code for code in PROGRAMS[name].avoid if code in text] == []


@pytest.mark.parametrize(
    ("name", "kind"), [_case(name, "loops") for name, one in PROGRAMS.items() if one.loops]
)
def test_all_calls_of_a_reply_are_handled(
    name: str, kind: str, lab: Laboratory, tmp_path: Path
) -> None:
    del kind
    folder = tmp_path / "program"
    copy_program("legacy", name, folder)
    assert migrate(folder, "chat").exit_code == 0
    after = lab.after(name, folder, "chat")
    assert any(len(exchange.answer.calls) > 1 for exchange in after.run.exchanges)


def _check_wire(before: Outputs, after: Outputs) -> None:
    """Check that the translated old requests are the new ones."""
    old, new = before.run.exchanges, after.run.exchanges
    assert _declared(new) == _declared(old)
    assert _called(new) == _called(old)
    assert _asked(new) == _asked(old)
    assert _settings(new) <= _settings(old)
    assert {one.key for one in new} == {one.key for one in old}


def _declared(exchanges: Sequence[Exchange]) -> set[str]:
    return {_text(function) for one in exchanges for function in one.asked.functions}


def _called(exchanges: Sequence[Exchange]) -> list[tuple[str, str]]:
    calls = (call for one in exchanges for call in one.answer.calls)
    return sorted((call.name, call.arguments) for call in calls)


def _asked(exchanges: Sequence[Exchange]) -> set[tuple[object, ...]]:
    """Return what the requests ask, apart from steps that are needed for one call at a time."""
    found: set[tuple[object, ...]] = {("choice", one.asked.choice) for one in exchanges}
    for one in exchanges:
        if not one.answer.calls:
            found.add((one.asked.system, one.asked.user, one.asked.outputs, one.answer.text))
    return found


def _settings(exchanges: Sequence[Exchange]) -> set[str]:
    return {
        _text(
            {
                _RENAMED.get(name, name): value
                for name, value in one.body.items()
                if name not in _CHANGED
            }
        )
        for one in exchanges
    }


def _text(value: JsonObject) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


@pytest.mark.parametrize(("name", "target"), _cases("person"))
def test_program_is_left_for_a_person(name: str, target: str, tmp_path: Path) -> None:
    copy_program("legacy", name, tmp_path / "program")
    _check_left(tmp_path / "program", target)


@pytest.mark.parametrize(("name", "target"), _all_targets(DECISIONS))
def test_decision_is_explained(name: str, target: str, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    copy_program("person", name, folder)
    left, comments = _check_left(folder, target)
    assert left >= set(DECISIONS[name].rules)
    assert DECISIONS[name].reason in comments


def _check_left(folder: Path, target: str) -> tuple[frozenset[str], str]:
    """Check that only comments are added, and return the rules and the comments."""
    before = texts(folder)
    migration = migrate(folder, target)
    assert migration.exit_code == 3, migration.output
    after = migration.texts
    assert _without_comments(after) == before
    comments = [line for text in after.values() for line in text.splitlines() if _is_new(line)]
    assert comments
    again = migrate(folder, target)
    assert (again.exit_code, again.texts) == (3, after)
    return migration.left, "\n".join(comments)


def _without_comments(written: dict[str, str]) -> dict[str, str]:
    return {
        name: "".join(line for line in text.splitlines(keepends=True) if not _is_new(line))
        for name, text in written.items()
    }


def _is_new(line: str) -> bool:
    return line.lstrip(' "').startswith("# dragoman: ")


@pytest.mark.parametrize(("name", "target"), _all_targets(sources("unrelated")))
def test_unrelated_program_is_not_changed(name: str, target: str, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    copy_program("unrelated", name, folder)
    before = texts(folder)
    assert (migrate(folder, target, write=False).exit_code) == 0
    migration = migrate(folder, target)
    assert (migration.exit_code, migration.texts) == (0, before)
