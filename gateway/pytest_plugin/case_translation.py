"""Translation of cases to the text of their snapshots."""

import adapters
from adapters import InvalidReplyError, InvalidRequestError, UnsupportedRequestError
from adapters.model_rules import BackendCapabilities
from gateway.config.transforms import make_transforms
from gateway.dry_run import OfflineTranslator, read_request
from gateway.pytest_plugin.case_options import CaseOptions
from gateway.pytest_plugin.cases import (
    BackendCase,
    Case,
    ErrorCase,
    ReplyCase,
    RequestCase,
    StreamCase,
    on_wire,
)
from gateway.pytest_plugin.formats import format_json
from gateway.pytest_plugin.translation import Translation, translate_body, translate_stream


def translate_case(case: Case, target: str, options: CaseOptions) -> str:
    """Return the translation of a case as readable text, with its losses."""
    translator = _make_translator(case, target, options)
    match case:
        case RequestCase():
            return _translate_request(translator, on_wire(case.body))
        case ReplyCase():
            return str(_translate_reply(translator, on_wire(case.body)))
        case StreamCase():
            return str(translate_stream(translator, case.body))
        case ErrorCase():
            return str(translate_body(translator, case.wire_body(), "error"))
        case _:
            raise TypeError(f"no such kind of case: {case!r}")


def _make_translator(case: Case, target: str, options: CaseOptions) -> OfflineTranslator:
    profile, capabilities = options.profile, options.capabilities
    if isinstance(case, RequestCase | BackendCase):
        profile = case.profile or profile
        capabilities = capabilities | case.own_capabilities
    request = None
    if isinstance(case, BackendCase) and bytes(case.request):
        dialects = (case.client or case.dialect, case.dialect)
        request = read_request(bytes(case.request), dialects)
    return OfflineTranslator(
        case.dialect,
        target,
        adapters.deterministic_ids(),
        BackendCapabilities(profile, capabilities),
        policy=case.policy if isinstance(case, RequestCase) else "report",
        status=case.status if isinstance(case, ErrorCase) else None,
        request=request,
        transforms=make_transforms(options.transforms),
    )


def _translate_request(translator: OfflineTranslator, body: bytes) -> str:
    try:
        return str(translate_body(translator, body, "request"))
    except (InvalidRequestError, UnsupportedRequestError) as error:
        refusal = {"path": error.path, "why": error.message, "code": error.code}
        return format_json({"refused": refusal})


def _translate_reply(translator: OfflineTranslator, body: bytes) -> Translation:
    try:
        return translate_body(translator, body, "reply")
    except InvalidReplyError as error:
        # The client receives this error in place of the reply.
        shown = translator.own_error(error)
        source, target = translator.source, translator.target
        return Translation("reply", source, target, shown, (), error.status)
