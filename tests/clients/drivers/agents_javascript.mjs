// The Agents SDK for JavaScript.

import * as agents from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { FUNCTIONS, main } from "./harness.mjs";

const MODELS = {
  chat: agents.OpenAIChatCompletionsModel,
  responses: agents.OpenAIResponsesModel,
};

async function* conversation(run) {
  const client = new OpenAI({ baseURL: run.baseURL, maxRetries: 0 });
  const model = new MODELS[process.argv[2]](client, run.model);
  const tools = FUNCTIONS.map(({ name, description }) =>
    agents.tool({
      name,
      description,
      parameters: z.object({ city: z.string() }),
      execute: ({ city }) => run.call(name, city),
    }),
  );
  const agent = new agents.Agent({ name: "Agent", instructions: "Be brief.", model, tools });
  let history = [];
  for (const prompt of run.prompts) {
    const result = await agents.run(agent, [...history, agents.user(prompt)], { stream: run.stream });
    if (run.stream) {
      for await (const _ of result);
      await result.completed;
    }
    history = result.history;
    yield result.finalOutput;
  }
}

agents.setTracingDisabled(true);
main(conversation);
