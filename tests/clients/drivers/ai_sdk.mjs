// The AI SDK.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { FUNCTIONS, main } from "./harness.mjs";

const MODELS = {
  chat: (settings, model) => createOpenAI(settings).chat(model),
  responses: (settings, model) => createOpenAI(settings).responses(model),
  compatible: (settings, model) =>
    createOpenAICompatible({ ...settings, name: "gateway" }).chatModel(model),
};

async function* conversation(run) {
  const settings = { baseURL: run.baseURL, apiKey: "sk-test" };
  const model = MODELS[process.argv[2]](settings, run.model);
  const tools = Object.fromEntries(
    FUNCTIONS.map(({ name, description }) => [
      name,
      tool({
        description,
        inputSchema: z.object({ city: z.string() }),
        execute: async ({ city }) => run.call(name, city),
      }),
    ]),
  );
  const messages = [];
  for (const prompt of run.prompts) {
    messages.push({ role: "user", content: prompt });
    const options = { model, messages, tools, system: "Be brief.", maxRetries: 0 };
    options.stopWhen = stepCountIs(5);
    let failure;
    const result = run.stream
      ? streamText({ ...options, onError: ({ error }) => (failure = error) })
      : await generateText(options);
    if (run.stream) await result.consumeStream();
    if (failure) throw failure;
    const text = await result.text;
    messages.push(...(await result.response).messages);
    yield text;
  }
}

main(conversation);
