-- A database of schema version 1, written by the first version of the gateway that had one.
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE responses (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    created BIGINT NOT NULL,
    status TEXT NOT NULL,
    model TEXT NOT NULL,
    parent TEXT,
    conversation TEXT,
    -- The first response of those that it continues, or itself.
    chain TEXT NOT NULL REFERENCES responses (id),
    -- When the chain was last used; kept true only on the first of it.
    touched BIGINT NOT NULL,
    -- 1 for one that was deleted while others stood on it.
    deleted SMALLINT NOT NULL DEFAULT 0,
    settings BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX responses_by_parent ON responses (parent) WHERE parent IS NOT NULL;
CREATE INDEX responses_by_chain ON responses (chain);
CREATE INDEX responses_by_use ON responses (touched) WHERE id = chain;
CREATE TABLE items (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    -- Where it belongs: to a response, to a conversation, or to both.
    response TEXT,
    -- 0: input, 1: output.
    side SMALLINT NOT NULL,
    position INTEGER NOT NULL,
    conversation TEXT,
    place BIGINT,
    -- The item of which this one is a repetition; then it has no body of its own.
    source BIGINT REFERENCES items (number),
    body BLOB
);
CREATE INDEX items_by_id ON items (id);
CREATE INDEX items_by_response ON items (response) WHERE response IS NOT NULL;
CREATE UNIQUE INDEX items_by_conversation ON items (conversation, place)
WHERE conversation IS NOT NULL
;
CREATE INDEX items_by_source ON items (source) WHERE source IS NOT NULL;
CREATE INDEX items_of_nobody ON items (number)
WHERE response IS NULL AND conversation IS NULL
;
CREATE TABLE jobs (
    response TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    lease DOUBLE PRECISION NOT NULL,
    cancelled SMALLINT NOT NULL DEFAULT 0,
    request BLOB NOT NULL
);
CREATE TABLE events (
    response TEXT NOT NULL,
    number BIGINT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (response, number)
);
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    created BIGINT NOT NULL,
    touched DOUBLE PRECISION NOT NULL,
    -- The place of the next item.
    next BIGINT NOT NULL,
    metadata BLOB NOT NULL
);
CREATE INDEX conversations_by_use ON conversations (touched);
CREATE TABLE completions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    created BIGINT NOT NULL,
    model TEXT NOT NULL,
    metadata BLOB NOT NULL,
    messages BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX completions_by_id ON completions (owner, id);
CREATE INDEX completions_by_owner ON completions (owner, number);
CREATE INDEX completions_by_age ON completions (created);
CREATE TABLE labels (
    -- The number of a completion.
    completion BIGINT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (completion, name)
);
CREATE TABLE notes (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    touched DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (scope, name)
);
CREATE INDEX notes_by_use ON notes (touched);
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
INSERT INTO schema_version VALUES (1);
INSERT INTO responses VALUES ('resp_01a1eed918a759e49d287f47741a0133', 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 1795008567, 'completed', 'chat-turns', NULL, NULL, 'resp_01a1eed918a759e49d287f47741a0133', 1795008567, 0, CAST('{"model":"chat-turns"}' AS BLOB), CAST('{"id":"resp_01a1eed918a759e49d287f47741a0133","object":"response","created_at":1,"completed_at":1795008567,"status":"completed","error":null,"incomplete_details":null,"model":"m","output":[],"background":false,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":12}}' AS BLOB));
INSERT INTO responses VALUES ('resp_01a1eed919b208fa483f7b76997785e5', 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 1795008567, 'completed', 'chat-turns', 'resp_01a1eed918a759e49d287f47741a0133', NULL, 'resp_01a1eed918a759e49d287f47741a0133', 1795008567, 0, CAST('{"model":"chat-turns"}' AS BLOB), CAST('{"id":"resp_01a1eed919b208fa483f7b76997785e5","object":"response","created_at":1,"completed_at":1795008567,"status":"completed","error":null,"incomplete_details":null,"model":"m","output":[],"background":false,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":"resp_01a1eed918a759e49d287f47741a0133","prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[{"type":"function","name":"weather","description":null,"parameters":{"type":"object","properties":{"city":{"type":"string"}}},"strict":null}],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":12}}' AS BLOB));
INSERT INTO responses VALUES ('resp_01a1eed91a50be2cc9ea7226971f5a20', 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 1795008567, 'completed', 'chat-turns', NULL, 'conv_01a1eed91a3dcc198bf5dfd651762833', 'resp_01a1eed91a50be2cc9ea7226971f5a20', 1795008567, 0, CAST('{"model":"chat-turns"}' AS BLOB), CAST('{"id":"resp_01a1eed91a50be2cc9ea7226971f5a20","object":"response","created_at":1,"completed_at":1795008567,"status":"completed","error":null,"incomplete_details":null,"model":"m","output":[],"background":false,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","conversation":{"id":"conv_01a1eed91a3dcc198bf5dfd651762833"},"service_tier":"default","usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":12}}' AS BLOB));
INSERT INTO responses VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 1795008568, 'in_progress', 'chat-first', NULL, NULL, 'resp_01a1eed91afa962ec0829a3bece954c3', 1795008568, 0, CAST('{"model":"chat-first"}' AS BLOB), CAST('{"id":"resp_01a1eed91afa962ec0829a3bece954c3","object":"response","created_at":1795008568,"completed_at":null,"status":"in_progress","error":null,"incomplete_details":null,"model":"chat-first","output":[],"background":true,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":null}' AS BLOB));
INSERT INTO responses VALUES ('resp_01a1eed91ee783126187c0e42259d983', 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 1795008569, 'queued', 'chat-queued', NULL, NULL, 'resp_01a1eed91ee783126187c0e42259d983', 1795008569, 0, CAST('{"model":"chat-queued"}' AS BLOB), CAST('{"id":"resp_01a1eed91ee783126187c0e42259d983","object":"response","created_at":1795008569,"completed_at":null,"status":"queued","error":null,"incomplete_details":null,"model":"chat-queued","output":[],"background":true,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":null}' AS BLOB));
INSERT INTO items VALUES (1, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'msg_01a1eed918a7f56ec06ff019d03c76e9', 'resp_01a1eed918a759e49d287f47741a0133', 0, 0, NULL, NULL, NULL, CAST('{"id":"msg_01a1eed918a7f56ec06ff019d03c76e9","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"My name is Ada."}]}' AS BLOB));
INSERT INTO items VALUES (2, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'msg_01a1eed918af977f7dc2397ba122170a', 'resp_01a1eed918a759e49d287f47741a0133', 1, 0, NULL, NULL, NULL, CAST('{"id":"msg_01a1eed918af977f7dc2397ba122170a","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello, Ada.","annotations":[],"logprobs":[]}]}' AS BLOB));
INSERT INTO items VALUES (3, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'msg_01a1eed919b29de76531d9f2bfe0ab3a', 'resp_01a1eed919b208fa483f7b76997785e5', 0, 0, NULL, NULL, NULL, CAST('{"id":"msg_01a1eed919b29de76531d9f2bfe0ab3a","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"How is the weather in Oslo?"}]}' AS BLOB));
INSERT INTO items VALUES (4, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'fc_01a1eed919b98fd1f87175e07351c638', 'resp_01a1eed919b208fa483f7b76997785e5', 1, 0, NULL, NULL, NULL, CAST('{"id":"fc_01a1eed919b98fd1f87175e07351c638","type":"function_call","status":"completed","call_id":"call_0_7a3dcc6e","name":"weather","arguments":"{\"city\":\"Oslo\"}"}' AS BLOB));
INSERT INTO items VALUES (5, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'msg_01a1eed91a3d56c3ce415780c75c5258', NULL, 0, 0, 'conv_01a1eed91a3dcc198bf5dfd651762833', 0, NULL, CAST('{"id":"msg_01a1eed91a3d56c3ce415780c75c5258","type":"message","role":"user","content":[{"type":"input_text","text":"Be brief."}],"status":"completed"}' AS BLOB));
INSERT INTO items VALUES (6, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'msg_01a1eed91a50343a1d919c113f190b70', 'resp_01a1eed91a50be2cc9ea7226971f5a20', 0, 0, 'conv_01a1eed91a3dcc198bf5dfd651762833', 1, NULL, CAST('{"id":"msg_01a1eed91a50343a1d919c113f190b70","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"When was Ada born?"}]}' AS BLOB));
INSERT INTO items VALUES (7, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'msg_01a1eed91a56dc30f9dbc84baef1e53f', 'resp_01a1eed91a50be2cc9ea7226971f5a20', 1, 0, 'conv_01a1eed91a3dcc198bf5dfd651762833', 2, NULL, CAST('{"id":"msg_01a1eed91a56dc30f9dbc84baef1e53f","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"It was 1815.","annotations":[],"logprobs":[]}]}' AS BLOB));
INSERT INTO items VALUES (8, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'msg_01a1eed91afabeb1eb5256f3ce9a190d', 'resp_01a1eed91afa962ec0829a3bece954c3', 0, 0, NULL, NULL, NULL, CAST('{"id":"msg_01a1eed91afabeb1eb5256f3ce9a190d","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"Count."}]}' AS BLOB));
INSERT INTO items VALUES (9, 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'msg_01a1eed91ee73f7a5ecdb6ca7a8df9aa', 'resp_01a1eed91ee783126187c0e42259d983', 0, 0, NULL, NULL, NULL, CAST('{"id":"msg_01a1eed91ee73f7a5ecdb6ca7a8df9aa","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"Count."}]}' AS BLOB));
INSERT INTO jobs VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 'node_8c0b73ff34f7db86', 1795008629.1100047, 0, CAST('{"body":{"input":"Count.","model":"chat-first","stream":true},"stamp":{"id":"resp_01a1eed91afa962ec0829a3bece954c3","previous_response_id":null,"store":true,"background":true,"created_at":1795008568},"authorization":"dragoman-job-AaBrThkyBdtGk7tyt0SHqjtZd354uPRvE_7u8xKpPGyqDERr3HrlQL45vEHaT5colQ"}' AS BLOB));
INSERT INTO jobs VALUES ('resp_01a1eed91ee783126187c0e42259d983', 'node_8c0b73ff34f7db86', 1795008629.1100047, 0, CAST('{"body":{"input":"Count.","model":"chat-queued","stream":true},"stamp":{"id":"resp_01a1eed91ee783126187c0e42259d983","previous_response_id":null,"store":true,"background":true,"created_at":1795008569},"authorization":"dragoman-job-AXMctr_hvBuQyFWXQoNk6gdLoK1SEUyGtELFwnTyrNJoeGFY0hsHrUq75hH7eD2_MQ"}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 0, CAST('{"type":"response.created","response":{"id":"resp_01a1eed91afa962ec0829a3bece954c3","object":"response","created_at":1795008568,"completed_at":null,"status":"queued","error":null,"incomplete_details":null,"model":"chat-first","output":[],"background":true,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":null},"sequence_number":0}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 1, CAST('{"type":"response.queued","response":{"id":"resp_01a1eed91afa962ec0829a3bece954c3","object":"response","created_at":1795008568,"completed_at":null,"status":"queued","error":null,"incomplete_details":null,"model":"chat-first","output":[],"background":true,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":null},"sequence_number":1}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 2, CAST('{"type":"response.in_progress","response":{"id":"resp_01a1eed91afa962ec0829a3bece954c3","object":"response","created_at":1795008568,"completed_at":null,"status":"in_progress","error":null,"incomplete_details":null,"model":"chat-first","output":[],"background":true,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":null},"sequence_number":2}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 3, CAST('{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_01a1eed91b06e782dee8ee59801fb1b8","type":"message","status":"in_progress","role":"assistant","content":[]},"sequence_number":3}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 4, CAST('{"type":"response.content_part.added","item_id":"msg_01a1eed91b06e782dee8ee59801fb1b8","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]},"sequence_number":4}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 5, CAST('{"type":"response.output_text.delta","item_id":"msg_01a1eed91b06e782dee8ee59801fb1b8","output_index":0,"content_index":0,"delta":"One tw","logprobs":[],"sequence_number":5}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91afa962ec0829a3bece954c3', 6, CAST('{"type":"response.output_text.delta","item_id":"msg_01a1eed91b06e782dee8ee59801fb1b8","output_index":0,"content_index":0,"delta":"o thre","logprobs":[],"sequence_number":6}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91ee783126187c0e42259d983', 0, CAST('{"type":"response.created","response":{"id":"resp_01a1eed91ee783126187c0e42259d983","object":"response","created_at":1795008569,"completed_at":null,"status":"queued","error":null,"incomplete_details":null,"model":"chat-queued","output":[],"background":true,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":null},"sequence_number":0}' AS BLOB));
INSERT INTO events VALUES ('resp_01a1eed91ee783126187c0e42259d983', 1, CAST('{"type":"response.queued","response":{"id":"resp_01a1eed91ee783126187c0e42259d983","object":"response","created_at":1795008569,"completed_at":null,"status":"queued","error":null,"incomplete_details":null,"model":"chat-queued","output":[],"background":true,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","service_tier":"default","usage":null},"sequence_number":1}' AS BLOB));
INSERT INTO conversations VALUES ('conv_01a1eed91a3dcc198bf5dfd651762833', 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 1795008567, 1795008567.8950043, 3, CAST('{"topic":"history"}' AS BLOB));
INSERT INTO completions VALUES (1, 'chatcmpl-1', 'd519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 1795008567, 'chat-completions', CAST('{"team":"blue"}' AS BLOB), CAST('[{"role":"user","content":"Count."}]' AS BLOB), CAST('{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Stored."}, "finish_reason": "stop", "logprobs": null}], "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}' AS BLOB));
INSERT INTO labels VALUES (1, 'team', 'blue');
INSERT INTO notes VALUES ('openai d519a2eeb8a492acbcd56d0392114a18323a863e4e4cc65a33fd6e2998b9c8e3', 'call_1', 'dragoman-sealed-AQfjxZHY5MHssu8AvmetX7jT9VWTWbgYUuObtiO8BXalFnUjTa-LGVyP72s6PPbl8InGgQPUinr_qM6UHFANIxlTjqzpmfn30Vvi9xXJwepWoe69w-cx0w5Kno3_8WJVn5Xymx2XXJxLPakTFfk_NJpWmaT-dIcDfF-MYmhu-gTby-lKg3EMyKm4rbJtfWILJ30Zc-0', 1795008567.987983);
INSERT INTO secrets VALUES ('sealing key', X'e5b1ad67d11efba0b58a3e10f3c71e6248bc50eb6fb3b8547b5a485d6b8e6e13');
