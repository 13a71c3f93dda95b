"""The words of the dialects and of recordings, which a credential may happen to be.

A cookie with the value `assistant`, for example, would otherwise make every recording invalid.
"""

from typing import Final

from adapters import DIALECTS, PROFILES, Capabilities, Loss, Violation
from gateway.recording.format import BackendCall, BodyInfo, Client, Exchange

# Names and values of at least 8 characters, without those that are part of others.
_WIRE: Final = """
accepted_prediction_tokens additional_properties allowed_tools annotation_index annotations
application/json apply_patch_call approximate assistant audio_tokens backend-reply
backend-request background cache_write_tokens cached_tokens cancelled chat.completion.chunk
chat_template_kwargs client-reply client-request client_disconnected client_metadata
command_index commands commentary completed_at completion_tokens_details completions
computer_call container_file_citation container_id content-encoding content-type content_filter
content_index context_length_exceeded conversations created_at definition delete_file
description developer disabled dragoman-loss enable_thinking encrypted_content end_index
execution expires_at explicit extra_content file_data file_path filename filtered final_answer
finish_reason frequency_penalty function_call_output functions image_url include_usage
incomplete_details input_audio input_file input_image input_schema input_text
input_tokens_details instructions insufficient_quota internal_server_error invalid_prompt
invalid_request_error invalid_value json_object json_schema local_shell_call
max_completion_tokens max_output_tokens max_tokens max_tool_calls mcp_approval_request
mcp_list_tools messages missing_required_parameter modalities model_error model_not_found
namespace network_error not_finished not_found_error obfuscation openai-processing-ms
openai-version operation output_format output_index output_tokens_details overloaded
parallel_tool_calls parameters pending_safety_checks permission_error presence_penalty
previous_response_id priority prompt_cache_breakpoint prompt_cache_key prompt_tokens_details
provider rate_limit_error rate_limit_exceeded reasoning.encrypted reasoning.text
reasoning_content reasoning_details reasoning_effort reasoning_tokens rejected_prediction_tokens
requested require_approval response.code_interpreter_call_code.delta response.completed
response.content_part.added response.content_part.done response.created
response.custom_tool_call_input.delta response.custom_tool_call_input.done response.failed
response.file_search_call.completed response.function_call_arguments.delta
response.function_call_arguments.done response.image_generation_call.completed
response.image_generation_call.generating response.image_generation_call.in_progress
response.in_progress response.incomplete response.mcp_call_arguments.delta
response.output_item.added response.output_item.done response.output_text.annotation.added
response.output_text.delta response.output_text.done response.reasoning_summary_part.added
response.reasoning_summary_part.done response.reasoning_summary_text.delta
response.reasoning_summary_text.done response.reasoning_text.delta response.reasoning_text.done
response.refusal.delta response.refusal.done response.web_search_call.searching response_format
retry-after-ms revised_prompt safety_identifier screenshot search_context_size sequence_number
server_label server_url service_tier start_index stream stream_options summary_index
system_fingerprint temperature text/event- text_tokens thought_signature timeout_ms tool_call_id
tool_choice tool_search_call top_logprobs total_tokens transcript truncation
unsupported_parameter unsupported_value url_citation user-agent verbosity web_search_options
websocket x-request-id x-should-retry
"""
_STRUCTS: Final = (BackendCall, BodyInfo, Capabilities, Client, Exchange, Loss, Violation)
_WORDS: Final = "\n".join(
    (
        *_WIRE.split(),
        *DIALECTS,
        *PROFILES,
        *(name for struct in _STRUCTS for name in struct.__struct_fields__),
    )
)


def is_wire_word(text: str) -> bool:
    """Whether a text is a word of the dialects, or a part of one."""
    return text in _WORDS
