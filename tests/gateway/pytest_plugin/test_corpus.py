"""The plugin reads and translates the corpus as the tests of this project do."""

from collections.abc import Sequence

import pytest

from gateway.pytest_plugin.case_options import CaseOptions
from gateway.pytest_plugin.case_translation import translate_case
from gateway.pytest_plugin.cases import Case, read_case
from tests.corpus import CASES, ERRORS, REPLIES, REQUESTS, STREAMS, pair
from tests.snapshots import SNAPSHOTS

KINDS: dict[str, tuple[Sequence[Case], str]] = {
    "requests": (REQUESTS, "json"),
    "replies": (REPLIES, "json"),
    "streams": (STREAMS, "sse"),
    "errors": (ERRORS, "json"),
}
# Offline, a request without a model is an example for training.
OTHERWISE_TRANSLATED = ("request-without-model",)


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_inferred_from_the_content(kind: str) -> None:
    cases, suffix = KINDS[kind]
    assert [read_case(CASES / kind / f"{case.name}.{suffix}") for case in cases] == [*cases]


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_that_of_the_snapshots(kind: str) -> None:
    cases, suffix = KINDS[kind]
    for case in cases:
        for target in case.others():
            if case.name not in OTHERWISE_TRANSLATED:
                assert translate_case(case, target, CaseOptions()) == snapshot(
                    kind, case, target, suffix
                )


def snapshot(kind: str, case: Case, target: str, suffix: str) -> str:
    path = SNAPSHOTS / kind / pair(case, target) / f"{case.name}.{suffix}"
    return path.read_bytes().decode()
