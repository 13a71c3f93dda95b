"""Old names of keys and values, for the error messages about files that still have them."""

from collections.abc import Mapping

from msgspec import Struct

from adapters import Capabilities, ReplyOptions
from gateway.config.schema import (
    BackendConfig,
    BackgroundConfig,
    Config,
    KeyConfig,
    RetryConfig,
    SealingConfig,
    ServerConfig,
    TimeoutConfig,
    TlsConfig,
)

RENAMED_KEYS: Mapping[type[Struct], Mapping[str, str]] = {
    Config: {"loss": "loss_policy", "preferences": "replies"},
    ServerConfig: {
        "keep_alive": "heartbeat_interval",
        "shutdown": "shutdown_timeout",
        "websocket_lifetime": "websocket_max_lifetime",
    },
    KeyConfig: {"preferences": "replies"},
    TimeoutConfig: {"first_byte": "response_start", "between_events": "idle", "whole": "total"},
    RetryConfig: {
        "limit": "max_retries",
        "statuses": "status_codes",
        "backoff": "initial_backoff",
        "longest_wait": "max_retry_after",
    },
    ReplyOptions: {"complete_truncated": "incomplete_as_completed"},
    SealingConfig: {"older_key_envs": "previous_key_envs"},
    BackgroundConfig: {"lease": "lease_duration"},
    BackendConfig: {"rename": "model_aliases"},
    TlsConfig: {"certificate_file": "cert_file"},
    Capabilities: {
        "strict_turns": "alternating_roles",
        "tool_images": "multimodal_tool_outputs",
        "item_status": "item_status_required",
        "efforts": "reasoning_efforts",
        "strict": "strict_tools",
        "strict_schemas": "enforce_strict_schemas",
        "deferred_tools": "max_deferred_tools",
        "tool_choice_needed": "explicit_tool_choice",
        "call_ids": "call_id_format",
        "json_arguments": "json_arguments_required",
        "web_search": "web_search_options",
        "counting": "count_tokens",
        "max_tokens": "max_tokens_field",
        "refuses": "unsupported_fields",
        "forward": "extra_fields",
        "inline_think": "think_tags",
    },
}

# Old values of a capability, by the name of the capability.
RENAMED_VALUES: Mapping[str, Mapping[str, str]] = {
    "system_messages": {"merged": "merge_leading", "one": "single"},
    "empty_content": {"empty": "empty_string", "absent": "omit"},
    "reasoning_replay": {"calls": "tool_calls"},
    "reasoning_items": {"sealed": "encrypted", "plain": "text", "each_call": "text_per_call"},
    "text_calls": {"xml": "qwen3_coder", "fenced": "fenced_json"},
    "call_id_format": {"nine": "alphanumeric_9"},
    "json_schema": {"own": "native", "in_object": "json_object", "never": "unsupported"},
}
