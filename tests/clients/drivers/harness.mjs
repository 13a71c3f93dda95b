// What the drivers of JavaScript clients share: runs as JSON lines in, their results as JSON lines out.

import { createInterface } from "node:readline";

export const FUNCTIONS = ["get_weather", "get_time"].map((name) => ({
  name,
  description: `Return the ${name.slice(4)} of a city.`,
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
}));

export async function main(conversation) {
  // Clients may print to standard output.
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  for await (const line of createInterface({ input: process.stdin })) {
    const { base_url: baseURL, ...given } = JSON.parse(line);
    const calls = [];
    const call = (name, city) => {
      calls.push([name, city]);
      return given.results[name];
    };
    let result;
    try {
      const texts = [];
      for await (const text of conversation({ ...given, baseURL, call })) texts.push(text);
      result = { texts: texts.map(String), calls };
    } catch (error) {
      console.error(error);
      result = { error: String(error), calls };
    }
    write(JSON.stringify(result) + "\n");
  }
}
