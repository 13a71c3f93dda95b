"""HTTP errors of a backend, translated for clients of the other dialects."""

import pytest
from msgspec import Raw
from syrupy.assertion import SnapshotAssertion

import adapters
from adapters.wire.error_body import CONTEXT_OVERFLOW
from gateway.pytest_plugin.formats import format_json
from tests.corpus import ERRORS, ErrorCase, case_params, case_target_params, pair
from tests.exchange import Exchange
from tests.judges import sdk
from tests.judges.reading import object_in, read_object


def translate(case: ErrorCase, target: str) -> adapters.ReplyEnd:
    return Exchange(target, case.dialect).error(case.status, case.wire_body())


@pytest.mark.parametrize(("case", "target"), case_target_params(ERRORS))
def test_error_in_another_dialect(
    case: ErrorCase, target: str, json_snapshot: SnapshotAssertion
) -> None:
    error = translate(case, target)
    page = format_json({"status": error.status, "body": Raw(error.body)})
    assert page == json_snapshot(name=f"{pair(case, target)}/{case.name}")
    sdk.judge_error(error.body)


@pytest.mark.parametrize("case", case_params(ERRORS))
def test_error_in_its_own_dialect(case: ErrorCase) -> None:
    error = translate(case, case.dialect)
    assert error.status == case.status
    code = object_in(read_object(error.body), "error").get("code")
    if is_envelope(case.wire_body()) and code != CONTEXT_OVERFLOW:
        assert error.body == case.wire_body()
    else:
        # Rewritten, because it was no envelope or lacked the code that clients know.
        sdk.judge_error(error.body)


def is_envelope(body: bytes) -> bool:
    try:
        return isinstance(read_object(body).get("error"), dict)
    except AssertionError:
        return False
