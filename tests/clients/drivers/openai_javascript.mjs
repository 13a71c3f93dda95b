// The OpenAI SDK for JavaScript, with its stream helpers.

import OpenAI from "openai";
import { FUNCTIONS, main } from "./harness.mjs";

async function* chat(run, client) {
  const tools = FUNCTIONS.map((one) => ({ type: "function", function: { ...one, strict: true } }));
  const messages = [{ role: "system", content: "Be brief." }];
  for (const prompt of run.prompts) {
    messages.push({ role: "user", content: prompt });
    for (;;) {
      const request = { model: run.model, messages, tools };
      const completion = run.stream
        ? await client.chat.completions.stream(request).finalChatCompletion()
        : await client.chat.completions.create(request);
      const message = completion.choices[0].message;
      messages.push(message);
      if (!message.tool_calls?.length) {
        yield message.content;
        break;
      }
      for (const one of message.tool_calls) {
        const { city } = JSON.parse(one.function.arguments);
        const content = run.call(one.function.name, city);
        messages.push({ role: "tool", tool_call_id: one.id, content });
      }
    }
  }
}

async function* responses(run, client) {
  const tools = FUNCTIONS.map((one) => ({ type: "function", strict: true, ...one }));
  const input = [];
  for (const prompt of run.prompts) {
    input.push({ role: "user", content: prompt });
    for (;;) {
      const request = { model: run.model, input, tools };
      const response = run.stream
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request);
      input.push(...response.output);
      const calls = response.output.filter((item) => item.type === "function_call");
      if (!calls.length) {
        yield response.output_text;
        break;
      }
      for (const one of calls) {
        const output = run.call(one.name, JSON.parse(one.arguments).city);
        input.push({ type: "function_call_output", call_id: one.call_id, output });
      }
    }
  }
}

const conversation = process.argv[2] === "responses" ? responses : chat;
main((run) => conversation(run, new OpenAI({ baseURL: run.baseURL, maxRetries: 0 })));
