// useStream, the React hook of @langchain/langgraph-sdk, which must work unmodified with the gateway.
import assert from "node:assert/strict";
import "./page.mjs";
import { useStream } from "@langchain/langgraph-sdk/react";
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { test } from "./harness.mjs";

const base = process.env.AGENTBUS_URLS.split(",")[0];
const human = (...lines) => ({ messages: [{ type: "human", content: lines.join("\n") }] });

// mount renders a component with the hook, and returns what the hook returned last.
function mount(options) {
  const page = { hook: undefined, unmount: undefined };
  function Chat() {
    page.hook = useStream({ apiUrl: `${base}/langgraph`, apiKey: null, messagesKey: "messages", ...options });
    return createElement("ul", null, page.hook.messages.map((m) => createElement("li", { key: m.id }, String(m.content))));
  }
  const root = createRoot(document.createElement("div"));
  root.render(createElement(Chat));
  page.unmount = () => root.unmount();
  return page;
}

// until waits for a condition of the page.
async function until(condition, what) {
  for (const end = Date.now() + 30_000; Date.now() < end;) {
    if (condition()) return;
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
  assert.fail(`${what} did not happen`);
}

test("a conversation in useStream", async () => {
  let threadId;
  const page = mount({ assistantId: "demo", onThreadId: (id) => { threadId = id; } });
  await until(() => page.hook, "the first rendering");
  page.hook.submit(human("/think hm", '/tool calculator {"expression":"6*7"}', "/say it is 42"));
  await until(() => !page.hook.isLoading && page.hook.messages.at(-1)?.content === "it is 42", "the answer");
  assert.equal(page.hook.error, undefined);
  assert.deepEqual(page.hook.messages.map((m) => m.type), ["human", "ai", "tool", "ai"]);
  page.hook.submit(human("/say again"));
  await until(() => !page.hook.isLoading && page.hook.messages.at(-1)?.content === "again", "the second answer");
  assert.equal(page.hook.messages.length, 6);
  page.unmount();

  const reloaded = mount({ assistantId: "demo", threadId, fetchStateHistory: true });
  await until(() => reloaded.hook?.messages.length === 6, "the conversation after a reload");
  assert.equal(reloaded.hook.history.length, 2, "a state for each run");
  reloaded.unmount();
});

test("an approval in useStream", async () => {
  const page = mount({ assistantId: "careful", fetchStateHistory: true });
  await until(() => page.hook, "the first rendering");
  page.hook.submit(human('/tool calculator {"expression":"6*7"}', "/say done"));
  await until(() => !page.hook.isLoading && page.hook.interrupt, "the interrupt");
  assert.equal(page.hook.interrupt.value.actionRequests[0].name, "calculator");
  page.hook.submit(undefined, { command: { resume: { decisions: [{ type: "approve" }] } } });
  await until(() => !page.hook.isLoading && page.hook.messages.at(-1)?.content === "done", "the answer");
  assert.equal(page.hook.interrupt, undefined);
  page.unmount();
});

test("a stop in useStream", async () => {
  const page = mount({ assistantId: "demo" });
  await until(() => page.hook, "the first rendering");
  page.hook.submit(human("/say one", '/tool echo {"text":"x","delay":"1m"}', "/say never"));
  await until(() => page.hook.messages.some((m) => m.content === "one"), "the first text");
  await page.hook.stop();
  await until(() => !page.hook.isLoading, "the stop");
  page.unmount();
});

test("an error in useStream", async () => {
  const page = mount({ assistantId: "demo" });
  await until(() => page.hook, "the first rendering");
  page.hook.submit(human("/fail agent_error"));
  await until(() => page.hook.error, "the error");
  assert.match(String(page.hook.error.message), /./);
  page.unmount();
});
