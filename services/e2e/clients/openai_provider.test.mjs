// OpenAI's Responses, tested with the provider of the AI SDK: it checks each event with its schemas, refers to stored items, and
// leaves out the request of an approval if nothing is stored.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import { test } from "./harness.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const [base] = process.env.AGENTBUS_URLS.split(",");
const model = createOpenAI({ baseURL: `${base}/openai/v1`, apiKey: "unused" }).responses("demo");
const lines = (...all) => all.join("\n");
const script = lines("/think hm", "/say one", '/tool calculator {"expression":"6*7"}', "/say two");
const pick = { description: "picks a file", inputSchema: jsonSchema({ type: "object", properties: { kind: { type: "string" } } }) };

test("text, reasoning and a tool of the agent", async () => {
  const answer = await generateText({ model, prompt: script });
  assert.equal(answer.text, "onetwo");
  assert.equal(answer.reasoningText, "hm");
  assert.equal(answer.finishReason, "stop");
  assert.deepEqual(answer.content.map((part) => part.type), ["reasoning", "text", "tool-call", "tool-result", "text"]);
  assert.ok(answer.usage.totalTokens > 0);
});

test("a stream", async () => {
  const failures = [];
  const stream = streamText({ model, prompt: script, onError: ({ error }) => void failures.push(error) });
  const parts = [];
  for await (const part of stream.fullStream) parts.push(part.type);
  assert.deepEqual(failures, []);
  for (const type of ["reasoning-delta", "text-delta", "tool-call", "tool-result", "finish"]) assert.ok(parts.includes(type), `${type} of ${parts}`);
  assert.equal(await stream.text, "onetwo");
});

test("a tool of the client", async () => {
  const tools = { pick_file: tool({ ...pick, execute: async ({ kind }) => ({ file: `a.${kind}` }) }) };
  const prompt = lines('/client-tool pick_file {"kind":"pdf"}', "/say thanks");
  const stream = streamText({ model, tools, stopWhen: isStepCount(3), prompt });
  let text = "";
  for await (const delta of stream.textStream) text += delta;
  assert.equal(text, "thanks");
  assert.equal((await stream.steps).length, 2);
});

for (const store of [true, false]) {
  const providerOptions = { openai: { store } };
  const how = store ? "with references to stored items" : "without stored items";

  test(`a conversation, ${how}`, async () => {
    const messages = [{ role: "user", content: lines("/think hm", "/say first") }];
    const first = await generateText({ model, messages, providerOptions });
    messages.push(...first.response.messages, { role: "user", content: "/say second" });
    const second = await generateText({ model, messages, providerOptions });
    assert.equal(second.text, "second");
  });

  for (const approved of [true, false]) {
    test(`an approval that is ${approved ? "given" : "denied"}, ${how}`, async () => {
      const messages = [{ role: "user", content: lines('/approve echo {"text":"hi"}', "/say done") }];
      const asked = await generateText({ model, messages, providerOptions });
      const request = asked.content.find((part) => part.type === "tool-approval-request");
      assert.deepEqual(request.toolCall.input, { text: "hi" });
      const response = { type: "tool-approval-response", approvalId: request.approvalId, approved, providerExecuted: true };
      messages.push(...asked.response.messages, { role: "tool", content: [response] });
      const answer = await generateText({ model, messages, providerOptions });
      assert.equal(answer.text, "done");
      assert.equal(answer.content.some((part) => part.type === "tool-result"), approved);
    });
  }
}
