// Codex CLI: `codex exec`, then `codex exec resume`. Its own tool runs commands that print results.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { main } from "./harness.mjs";

const CALLS = [["get_weather", "Zürich"], ["get_time", "東京"]];

function run_codex(run, home, resume, prompt) {
  const provider = "model_providers.gateway";
  const settings = {
    model_provider: "gateway",
    [`${provider}.name`]: "gateway",
    [`${provider}.base_url`]: run.baseURL,
    [`${provider}.wire_api`]: "responses",
    [`${provider}.env_key`]: "OPENAI_API_KEY",
    [`${provider}.request_max_retries`]: 0,
    [`${provider}.stream_max_retries`]: 0,
  };
  const given = Object.entries(settings).flatMap(([key, value]) => [
    "-c",
    `${key}=${JSON.stringify(value)}`,
  ]);
  const flags = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
  const command = ["exec", ...resume, ...flags, "-m", run.model, ...given, prompt];
  const ended = spawnSync("node_modules/.bin/codex", command, {
    env: { ...process.env, CODEX_HOME: home },
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf-8",
    timeout: 50_000,
  });
  return ended.stdout.trim().split("\n").map((line) => JSON.parse(line));
}

async function* conversation(run) {
  // Codex refuses a home in the folder for temporary files.
  const home = mkdtempSync(join(process.cwd(), "home-"));
  try {
    for (const [number, prompt] of run.prompts.entries()) {
      const events = run_codex(run, home, number ? ["resume", "--last"] : [], prompt);
      const failed = events.find((event) => event.type === "turn.failed");
      if (failed) throw new Error(failed.error.message);
      const items = events.filter((event) => event.type === "item.completed").map((one) => one.item);
      for (const item of items.filter((one) => one.type === "command_execution")) {
        const call = CALLS.find(([, city]) => item.command.includes(city));
        if (call && item.exit_code === 0) run.call(...call);
      }
      yield items.findLast((item) => item.type === "agent_message").text;
    }
  } finally {
    rmSync(home, { recursive: true });
  }
}

main(conversation);
