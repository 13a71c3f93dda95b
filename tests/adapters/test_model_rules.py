"""The capabilities of single models, and the fixed fields of a backend's requests."""

import json
from typing import Any

import pytest
from msgspec import Raw

import adapters
from adapters.capabilities import GENERIC, ModelRule
from adapters.losses import Losses
from adapters.model_rules import BackendCapabilities
from adapters.profiles import MODEL_RULES, PROFILES
from adapters.wire.extra_body import add_extra_body
from tests.exchange import exchange_between

REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hi"}],
    "chat_template_kwargs": {"enable_thinking": True},
}
EXTRA: dict[str, object] = {
    "top_k": 20,
    "model": "other",
    "chat_template_kwargs": {"enable_thinking": False, "lang": "fr"},
}


def test_pattern_ignores_case() -> None:
    rule = ModelRule("*grok-4*")
    assert rule.matches("x-ai/Grok-4.3")
    assert not rule.matches("grok-3")


@pytest.mark.parametrize("profile", PROFILES)
def test_profile_without_a_model_is_the_profile(profile: str) -> None:
    assert BackendCapabilities(profile).for_model() == PROFILES[profile]


def test_rules_belong_to_profiles() -> None:
    assert MODEL_RULES.keys() <= PROFILES.keys()


def test_last_rule_counts() -> None:
    rules = (
        ModelRule("a*", {"think_tags": True, "strict_tools": False}),
        ModelRule("*b", {"think_tags": False}),
    )
    found = BackendCapabilities(models=rules).for_model("ab")
    assert (found.think_tags, found.strict_tools) == (False, False)


def test_extra_body_replaces_nothing() -> None:
    losses = Losses()
    body = add_extra_body(json.dumps(REQUEST).encode(), EXTRA, losses)
    assert json.loads(body) == {
        **REQUEST,
        "top_k": 20,
        "chat_template_kwargs": {"enable_thinking": True, "lang": "fr"},
    }
    assert {loss.path: (loss.action, loss.severity) for loss in losses} == {
        "extra_body.top_k": ("invented", "adapted"),
        "extra_body.model": ("dropped", "adapted"),
        "extra_body.chat_template_kwargs.enable_thinking": ("dropped", "adapted"),
        "extra_body.chat_template_kwargs.lang": ("invented", "adapted"),
    }


def test_extra_body_that_changes_nothing_keeps_the_bytes() -> None:
    body = b'{"a": 1}'
    assert add_extra_body(body, {"a": 2}, Losses()) is body


@pytest.mark.parametrize("backend", adapters.DIALECTS)
@pytest.mark.parametrize("client", adapters.DIALECTS)
def test_extra_body_reaches_every_backend(client: str, backend: str) -> None:
    items = {"chat": "messages", "legacy": "messages", "responses": "input"}[client]
    body = json.dumps({"model": "m", items: [{"role": "user", "content": "Hi"}]}).encode()
    extra: dict[str, object] = {"top_k": 20}
    sent = exchange_between(client, backend, extra_body=extra).request(body)
    assert json.loads(sent.body)["top_k"] == 20
    assert "extra_body.top_k" in {loss.path for loss in sent.losses}
    if client == backend:
        # All else passes unchanged.
        assert json.loads(sent.body) == {**json.loads(body), "top_k": 20}


def test_profile_of_the_library_depends_on_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {"vllm": (ModelRule("qwen*", {"max_tokens_field": "max_tokens"}),)}
    monkeypatch.setattr("adapters.model_rules.MODEL_RULES", rules)
    body = {"model": "nickname", "input": "Hi", "max_output_tokens": 20}

    def sent(model: str) -> Any:
        translated = adapters.translate_request(
            body, client="responses", backend="chat", profile="vllm", model=model
        )
        return json.loads(translated.body)

    assert "max_tokens" in sent("qwen3")
    assert "max_completion_tokens" in sent("llama")


def test_model_of_a_body() -> None:
    assert adapters.parse_body(b'{"model": "m"}').model == "m"
    assert adapters.parse_body(b'{"model": 3}').model is None
    assert adapters.RequestBody({"other": Raw(b"1")}).model is None
    assert BackendCapabilities().for_model() == GENERIC
