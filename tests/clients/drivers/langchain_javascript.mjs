// LangChain for JavaScript: an agent on `ChatOpenAI`.

import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";
import { z } from "zod";
import { FUNCTIONS, main } from "./harness.mjs";

async function* conversation(run) {
  const model = new ChatOpenAI({
    model: run.model,
    configuration: { baseURL: run.baseURL },
    useResponsesApi: process.argv[2] === "responses",
    streaming: run.stream,
    maxRetries: 0,
  });
  const tools = FUNCTIONS.map(({ name, description }) =>
    tool(({ city }) => run.call(name, city), {
      name,
      description,
      schema: z.object({ city: z.string() }),
    }),
  );
  const agent = createAgent({ model, tools, systemPrompt: "Be brief." });
  let messages = [];
  for (const prompt of run.prompts) {
    let state = { messages: [...messages, { role: "user", content: prompt }] };
    if (run.stream) {
      const modes = { streamMode: ["messages", "values"] };
      for await (const [kind, value] of await agent.stream(state, modes)) {
        if (kind === "values") state = value;
      }
    } else {
      state = await agent.invoke(state);
    }
    messages = state.messages;
    yield messages.at(-1).text;
  }
}

main(conversation);
