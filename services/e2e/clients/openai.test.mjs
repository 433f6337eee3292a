// OpenAI's API, tested with the published client: openai must work unmodified.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { test } from "./harness.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

const connect = (at = base) => new OpenAI({ baseURL: `${at}/openai/v1`, apiKey: "unused" });
const client = connect();
const user = (...lines) => ({ role: "user", content: lines.join("\n") });
const ask = (...lines) => client.chat.completions.create({ model: "demo", messages: [user(...lines)] });

// collect reads a stream of chunks as the published helper does.
async function collect(stream) {
  const answer = { text: "", reasoning: "", calls: [], finish: undefined, usage: undefined };
  for await (const chunk of stream) {
    answer.usage = chunk.usage ?? answer.usage;
    const [choice] = chunk.choices;
    if (!choice) continue;
    answer.text += choice.delta.content ?? "";
    answer.reasoning += choice.delta.reasoning_content ?? "";
    for (const call of choice.delta.tool_calls ?? []) answer.calls[call.index] = call;
    answer.finish = choice.finish_reason ?? answer.finish;
  }
  return answer;
}

test("models", async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.ok(ids.includes("demo"), ids.join());
  assert.equal((await client.models.retrieve("demo")).object, "model");
  await assert.rejects(client.models.retrieve("missing"), { status: 404, code: "agent_not_found", type: "invalid_request_error" });
});

test("a completion", async () => {
  const answer = await ask("/think a product", '/tool calculator {"expression":"6*7"}', "/say it is 42");
  const [choice] = answer.choices;
  assert.equal(choice.message.content, "it is 42");
  assert.equal(choice.message.reasoning_content, "a product");
  assert.equal(choice.finish_reason, "stop");
  assert.equal(answer.model, "demo");
  assert.ok(answer.usage.total_tokens > 0);
  assert.ok(Math.abs(answer.created - Date.now() / 1000) < 600);
});

test("a completion is retrieved on another gateway", async () => {
  const answer = await ask("/say hello");
  assert.deepEqual(await connect(other).chat.completions.retrieve(answer.id), answer);
});

test("a stream, read by the client's helper", async () => {
  const runner = client.chat.completions.stream({
    model: "demo", messages: [user("/think hm", "/say one", '/tool echo {"text":"x"}', "/say two")], stream_options: { include_usage: true },
  });
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, "one\n\ntwo");
  assert.equal(final.choices[0].finish_reason, "stop");
  assert.ok(final.usage.completion_tokens > 0);
  const stored = await client.chat.completions.retrieve(final.id);
  assert.equal(stored.choices[0].message.content, "one\n\ntwo");
  assert.equal(stored.created, final.created);
});

test("a conversation of the client is the history", async () => {
  const messages = [{ role: "system", content: "be brief" }, user("/say first"), { role: "assistant", content: "first" }, user("/say second")];
  const answer = await client.chat.completions.create({ model: "demo", messages });
  assert.equal(answer.choices[0].message.content, "second");
});

test("a thread of the client", async () => {
  const metadata = { thread_id: randomUUID() };
  const messages = [user("/say first")];
  const first = await client.chat.completions.create({ model: "demo", messages, metadata });
  messages.push(first.choices[0].message, user("/say second"));
  const second = await client.chat.completions.create({ model: "demo", messages, metadata });
  assert.equal(second.choices[0].message.content, "second");
  const stored = await (await fetch(`${base}/v1/threads/${metadata.thread_id}/messages`)).json();
  assert.equal(stored.messages.filter((m) => m.role === "user").length, 2);
});

const pick = { type: "function", function: { name: "pick_file", description: "picks a file", parameters: { type: "object", properties: { kind: { type: "string" } } } } };

for (const stream of [false, true]) {
  test(`a tool of the client${stream ? ", streamed" : ""}`, async () => {
    const messages = [user('/client-tool pick_file {"kind":"pdf"}', "/say thanks")];
    const create = async () => {
      const r = await client.chat.completions.create({ model: "demo", messages, tools: [pick], stream });
      if (!stream) return { calls: r.choices[0].message.tool_calls, finish: r.choices[0].finish_reason, text: r.choices[0].message.content };
      return collect(r);
    };
    const asked = await create();
    assert.equal(asked.finish, "tool_calls");
    const [call] = asked.calls;
    assert.equal(call.function.name, "pick_file");
    assert.deepEqual(JSON.parse(call.function.arguments), { kind: "pdf" });
    const { index, ...kept } = call;
    messages.push({ role: "assistant", content: null, tool_calls: [kept] }, { role: "tool", tool_call_id: call.id, content: '{"file":"a.pdf"}' });
    const answer = await create();
    assert.equal(answer.text, "thanks");
    assert.equal(answer.finish, "stop");
  });
}

for (const approved of [true, false]) {
  test(`an approval that is ${approved ? "given" : "denied"}`, async () => {
    const messages = [user('/approve echo {"text":"careful"}', "/say after")];
    const asked = await client.chat.completions.create({ model: "demo", messages });
    const [call] = asked.choices[0].message.tool_calls;
    assert.equal(call.function.name, "approve_tool_call");
    assert.deepEqual(JSON.parse(call.function.arguments), { tool: "echo", arguments: { text: "careful" } });
    messages.push(asked.choices[0].message, { role: "tool", tool_call_id: call.id, content: JSON.stringify({ approved }) });
    const answer = await client.chat.completions.create({ model: "demo", messages });
    assert.equal(answer.choices[0].message.content, "after");
    const [, , threadId] = call.id.split(":");
    const { events } = await (await fetch(`${base}/v1/threads/${threadId}/events?type=tool_result`)).json();
    assert.equal(events.at(-1).status, approved ? "success" : "denied");
    await assert.rejects(client.chat.completions.create({ model: "demo", messages }), { status: 400, code: "invalid_action_id" });
  });
}

test("a question, answered by a function of the client's runner", async () => {
  const questions = [];
  const answers = {
    type: "function",
    function: {
      name: "ask_user", description: "asks the user", parameters: { type: "object", properties: { question: { type: "string" } } },
      parse: JSON.parse,
      function: ({ question }) => (questions.push(question), "3"),
    },
  };
  const runner = client.chat.completions.runTools({ model: "demo", messages: [user("/ask Which page?", "/say thanks")], tools: [answers] });
  assert.equal(await runner.finalContent(), "thanks");
  assert.deepEqual(questions, ["Which page?"]);
});

test("an error", async () => {
  await assert.rejects(ask("/say before", "/fail agent_error"), (error) => error.code === "agent_error" && error.status >= 500);
  const stream = await client.chat.completions.create({ model: "demo", stream: true, messages: [user("/say before", "/fail agent_error")] });
  await assert.rejects(collect(stream), (error) => error.code === "agent_error");
});

test("errors before the request", async () => {
  await assert.rejects(client.chat.completions.create({ model: "missing", messages: [user("hi")] }), { status: 404, code: "agent_not_found" });
  await assert.rejects(client.chat.completions.create({ model: "demo", messages: [] }), { status: 400, type: "invalid_request_error" });
  await assert.rejects(client.chat.completions.create({ model: "demo", messages: [user("hi")], n: 2 }), /n is 2/);
});

test("an abort by another client ends the stream with an error", async () => {
  const stream = await client.chat.completions.create({ model: "demo", stream: true, messages: [user("/stream 100000 20")] });
  let stopped;
  await assert.rejects(async () => {
    for await (const chunk of stream) {
      stopped ??= fetch(`${other}/v1/requests/${chunk.id.replace("chatcmpl-", "")}/abort`, { method: "POST" });
    }
  }, (error) => error.code === "aborted");
  assert.equal((await stopped).status, 202);
});

test("a client that leaves does not end the request", async () => {
  const stream = await client.chat.completions.create({ model: "demo", stream: true, messages: [user("/stream 40 20", "/say the end")] });
  let id;
  for await (const chunk of stream) {
    id = chunk.id;
    break;
  }
  const answer = await connect(other).chat.completions.retrieve(id);
  assert.match(answer.choices[0].message.content, /the end$/);
});

test("an idempotency key", async () => {
  const options = { headers: { "Idempotency-Key": randomUUID() } };
  const request = { model: "demo", messages: [user("/say once")] };
  const first = await client.chat.completions.create(request, options);
  assert.deepEqual(await connect(other).chat.completions.create(request, options), first);
});
