// The subset of the LangGraph Agent Server, tested with the published client: @langchain/langgraph-sdk must work unmodified.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Client } from "@langchain/langgraph-sdk";
import { test } from "./harness.mjs";
import { cutting } from "./proxy.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

const connect = (at = base) => new Client({ apiUrl: `${at}/langgraph`, apiKey: null, callerOptions: { maxRetries: 0 } });
const client = connect();
const human = (...lines) => ({ messages: [{ type: "human", content: lines.join("\n") }] });
const newThread = async () => (await client.threads.create()).thread_id;

// collect reads a stream, and returns its events and the last value of each kind.
async function collect(stream) {
  const all = { events: [], last: {} };
  for await (const { id, event, data } of stream) {
    all.events.push({ id, event, data });
    all.last[event] = data;
  }
  return all;
}

const texts = (values) => values.messages.map((m) => [m.type, m.content]);

test("assistants are agents", async () => {
  const found = await client.assistants.search({ limit: 100 });
  assert.ok(found.some((a) => a.assistant_id === "demo" && a.graph_id === "demo"));
  assert.equal((await client.assistants.get("demo")).name, "demo");
  assert.deepEqual((await client.assistants.getGraph("demo")).nodes.map((n) => n.id), ["__start__", "agent", "tools", "__end__"]);
  assert.equal((await client.assistants.getSchemas("demo")).graph_id, "demo");
  await assert.rejects(client.assistants.get("missing"), /404.*there is no assistant/s);
  assert.equal(await client.assistants.count(), (await client.assistants.search({ limit: 1000 })).length);
});

test("a thread without a run", async () => {
  const thread = await client.threads.create({ metadata: { color: "blue" }, graphId: "demo" });
  assert.equal(thread.status, "idle");
  assert.equal(thread.metadata.color, "blue");
  const state = await connect(other).threads.getState(thread.thread_id);
  assert.deepEqual(state.values, { messages: [] });
  assert.deepEqual(await client.threads.getHistory(thread.thread_id), []);
  await assert.rejects(client.threads.create({ threadId: thread.thread_id }), /exists/);
  assert.equal((await client.threads.create({ threadId: thread.thread_id, ifExists: "do_nothing" })).thread_id, thread.thread_id);
  assert.equal((await client.threads.update(thread.thread_id, { metadata: { color: "red" } })).metadata.color, "red");
  const id = randomUUID();
  assert.equal((await client.threads.create({ threadId: id })).thread_id, id);
  await assert.rejects(client.threads.get("missing"), /404/);
});

test("a run in all modes", async () => {
  const thread = await newThread();
  let created;
  const { events, last } = await collect(client.runs.stream(thread, "demo", {
    input: human("/think hm", "/say let me see", '/tool calculator {"expression":"6*7"}', "/say it is 42"),
    streamMode: ["values", "updates", "messages", "messages-tuple", "custom", "tools"],
    onRunCreated: (run) => { created = run; },
  }));
  assert.equal(events[0].event, "metadata");
  assert.equal(events.at(-1).event, "end");
  assert.equal(created.thread_id, thread);
  assert.equal(last.metadata.run_id, created.run_id);
  const [user, asked, result, answer] = last.values.messages;
  assert.equal(user.type, "human");
  assert.equal(asked.additional_kwargs.reasoning_content, "hm");
  assert.equal(asked.tool_calls[0].name, "calculator");
  assert.deepEqual(asked.tool_calls[0].args, { expression: "6*7" });
  assert.equal(result.tool_call_id, asked.tool_calls[0].id);
  assert.equal(result.status, "success");
  assert.equal(answer.content, "it is 42");
  assert.ok(answer.usage_metadata.total_tokens > 0);
  const streamed = events.filter((e) => e.event === "messages" && e.data[0].id === answer.id).map((e) => e.data[0].content).join("");
  assert.equal(streamed, "it is 42");
  const args = events.filter((e) => e.event === "messages" && e.data[0].id === asked.id)
    .flatMap((e) => e.data[0].tool_call_chunks ?? []).map((c) => c.args).join("");
  assert.deepEqual(JSON.parse(args), { expression: "6*7" });
  assert.deepEqual(events.filter((e) => e.event === "tools").map((e) => e.data.event), ["on_tool_start", "on_tool_end"]);
  assert.deepEqual(last["messages/complete"][0].content, "it is 42");
  assert.deepEqual(last.updates.agent.messages[0].content, "it is 42");
});

test("the state after a second run, on the other gateway", async () => {
  const thread = await newThread();
  await client.runs.wait(thread, "demo", { input: human("/say one") });
  const values = await connect(other).runs.wait(thread, "demo", { input: human("/say two") });
  assert.deepEqual(texts(values), [["human", "/say one"], ["ai", "one"], ["human", "/say two"], ["ai", "two"]]);
  const state = await client.threads.getState(thread);
  assert.deepEqual(texts(state.values), texts(values));
  assert.deepEqual([state.next, state.tasks], [[], []]);
  const history = await client.threads.getHistory(thread);
  assert.deepEqual(history.map((s) => s.values.messages.length), [4, 2]);
  assert.equal(history[0].parent_checkpoint.checkpoint_id, history[1].checkpoint.checkpoint_id);
  const runs = await client.runs.list(thread);
  assert.deepEqual(runs.map((r) => r.status), ["success", "success"]);
  assert.equal(history[0].checkpoint.checkpoint_id, runs[0].run_id);
  const found = await client.threads.search({ limit: 5, metadata: { graph_id: "demo" } });
  assert.ok(found.some((t) => t.thread_id === thread));
});

test("a stream of a later run begins with the messages of the earlier ones", async () => {
  const thread = await newThread();
  const first = await client.runs.create(thread, "demo", { input: human('/tool echo {"text":"x","delay":"1s"}', "/say one") });
  assert.match(first.status, /pending|running/);
  const { events } = await collect(client.runs.stream(thread, "demo", { input: human("/say two"), streamMode: "values" })); // waits
  const begin = events.find((e) => e.event === "values").data;
  assert.deepEqual(begin.messages.at(-2).content, "one");
  assert.deepEqual(begin.messages.at(-1).content, "/say two");
});

test("a run is joined, and its stream read again from the middle", async () => {
  const thread = await newThread();
  const run = await client.runs.create(thread, "demo", { input: human("/say alpha", '/tool echo {"text":"x"}', "/say omega"), streamMode: ["values", "messages-tuple"] });
  const values = await connect(other).runs.join(thread, run.run_id);
  assert.equal(values.messages.at(-1).content, "omega");
  const whole = (await collect(client.runs.joinStream(thread, run.run_id))).events;
  assert.ok(whole.some((e) => e.event === "messages"), "the modes are those of the run");
  assert.deepEqual((await collect(client.runs.joinStream(thread, run.run_id, { lastEventId: "-1" }))).events, whole);
  const middle = whole.findIndex((e) => e.id && e.event === "messages");
  const rest = (await collect(connect(other).runs.joinStream(thread, run.run_id, { lastEventId: whole[middle].id }))).events;
  assert.deepEqual(rest.map((e) => e.data), whole.slice(middle + 1).map((e) => e.data));
  assert.deepEqual((await collect(client.runs.joinStream(thread, run.run_id, { lastEventId: whole.at(-1).id }))).events, []);
});

test("a cut connection is continued on the other gateway", async () => {
  const proxy = await cutting(gateways, 1);
  const cut = connect(proxy.url);
  const thread = await newThread();
  const { events, last } = await collect(cut.runs.stream(thread, "demo", {
    input: human("/say one", '/tool echo {"text":"x","delay":"2s"}', "/say two"), streamMode: ["values", "messages-tuple"],
  }));
  await proxy.close();
  assert.equal(proxy.cuts, 1);
  assert.equal(last.values.messages.at(-1).content, "two");
  assert.equal(events.filter((e) => e.event === "metadata").length, 1, "no event comes twice");
  assert.equal(events.filter((e) => e.event === "messages" && e.data[0].content === "one").length, 1);
});

test("an approval", async () => {
  const thread = await newThread();
  const values = await client.runs.wait(thread, "careful", { input: human('/tool calculator {"expression":"6*7"}', "/say done") });
  const [interrupt] = values.__interrupt__;
  assert.equal(interrupt.value.action_requests[0].name, "calculator");
  assert.deepEqual(interrupt.value.review_configs[0].allowed_decisions, ["approve", "reject"]);
  const state = await connect(other).threads.getState(thread);
  assert.deepEqual(state.tasks[0].interrupts, values.__interrupt__);
  assert.equal((await client.threads.get(thread)).status, "interrupted");
  await assert.rejects(client.runs.wait(thread, "careful", { command: { resume: { decisions: [{ type: "edit" }] } } }), /approve or reject/);
  const after = await client.runs.wait(thread, "careful", { command: { resume: { decisions: [{ type: "approve" }] } } });
  assert.equal(after.__interrupt__, undefined);
  assert.equal(after.messages.at(-1).content, "done");
  assert.equal(after.messages.at(-2).status, "success");
  await assert.rejects(client.runs.wait(thread, "careful", { command: { resume: true } }), /waits for no answer/);
});

test("a denial, and an answer by id", async () => {
  const thread = await newThread();
  const { last } = await collect(client.runs.stream(thread, "careful", { input: human('/tool calculator {"expression":"6*7"}', "/say done"), streamMode: ["values", "updates"] }));
  const [{ id }] = last.values.__interrupt__;
  assert.equal(last.updates.__interrupt__[0].id, id);
  const after = await client.runs.wait(thread, "careful", { command: { resume: { [id]: { decisions: [{ type: "reject", message: "no" }] } } } });
  assert.equal(after.messages.at(-2).status, "error");
});

test("a question", async () => {
  const thread = await newThread();
  const values = await client.runs.wait(thread, "careful", { input: human("/ask Which color?", "/say thanks") });
  assert.equal(values.__interrupt__[0].value.question, "Which color?");
  const after = await client.runs.wait(thread, "careful", { command: { resume: "blue" } });
  assert.equal(after.messages.at(-1).content, "thanks");
});

test("a client tool", async () => {
  const thread = await newThread();
  const values = await client.runs.wait(thread, "demo", { input: human('/client-tool pick {"a":1}', "/say picked") });
  const [{ value }] = values.__interrupt__;
  assert.equal(value.type, "tool");
  assert.deepEqual(value.toolCall.args, { a: 1 });
  const after = await client.runs.wait(thread, "demo", { command: { resume: { [value.toolCall.id]: { file: "a.txt" } } } });
  assert.equal(after.messages.at(-1).content, "picked");
});

test("an approval that a native client gives while this one follows the thread", async () => {
  const thread = await newThread();
  const values = await client.runs.wait(thread, "careful", { input: human('/tool calculator {"expression":"6*7"}', "/say done") });
  const response = await fetch(`${other}/v1/agents/careful/stream`, {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ threadId: thread, messages: [], context: { actionResults: [{ actionId: values.__interrupt__[0].id, status: "success" }] } }),
  });
  const run = response.headers.get("X-Request-Id");
  const { last } = await collect(client.runs.joinStream(thread, run));
  await response.text();
  assert.equal(last.values.messages.at(-1).content, "done");
});

test("a cancelled run", async () => {
  const thread = await newThread();
  const run = await client.runs.create(thread, "demo", { input: human('/tool echo {"text":"x","delay":"1m"}', "/say never") });
  const reading = collect(client.runs.joinStream(thread, run.run_id));
  await connect(other).runs.cancel(thread, run.run_id, true);
  assert.equal((await reading).events.at(-1).event, "end");
  assert.equal((await client.runs.get(thread, run.run_id)).status, "interrupted");
  assert.equal((await client.threads.get(thread)).status, "idle");
  await client.runs.cancel(thread, run.run_id); // has no effect
});

test("a run that ends with its connection", async () => {
  const thread = await newThread();
  const aborter = new AbortController();
  let run;
  const stream = client.runs.stream(thread, "demo", {
    input: human("/say one", '/tool echo {"text":"x","delay":"1m"}', "/say never"), onDisconnect: "cancel", signal: aborter.signal,
    onRunCreated: ({ run_id: id }) => { run = id; },
  });
  for await (const { event } of stream) if (event === "values") break;
  aborter.abort();
  await connect(other).runs.join(thread, run); // ends, because the run is cancelled
  assert.equal((await client.runs.get(thread, run)).status, "interrupted");
});

test("an error", async () => {
  const thread = await newThread();
  await assert.rejects(client.runs.wait(thread, "demo", { input: human("/fail agent_error") }), /agent_error: /);
  const { last } = await collect(client.runs.joinStream(thread, (await client.runs.list(thread))[0].run_id));
  assert.equal(last.error.error, "agent_error");
  const state = await client.threads.getState(thread);
  assert.match(state.tasks[0].error, /agent_error/);
  assert.equal((await client.threads.get(thread)).status, "error");
});

test("a plan", async () => {
  const { last } = await collect(client.runs.stream(await newThread(), "planner", { input: human("/plan one; two", "/plan-done 1", "/say done") }));
  assert.deepEqual(last.values.todos, [{ content: "one", status: "completed" }, { content: "two", status: "in_progress" }]);
});

test("a custom event", async () => {
  const { last } = await collect(client.runs.stream(await newThread(), "demo", {
    input: human('/tool echo {"text":"x","emit":{"type":"chart","data":{"a":1}}}'), streamMode: "custom",
  }));
  assert.deepEqual(last.custom, { type: "chart", data: { a: 1 } });
});

test("a whole conversation, with an image", async () => {
  const thread = randomUUID();
  const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const values = await client.runs.wait(thread, "demo", {
    ifNotExists: "create",
    input: { messages: [
      { role: "user", content: "hello" }, { role: "assistant", content: "hi" },
      { type: "human", content: [{ type: "text", text: "/say seen" }, { type: "image_url", image_url: { url: pixel } }] },
    ] },
  });
  assert.deepEqual(values.messages.map((m) => m.type), ["human", "ai", "human", "ai"]);
  assert.equal(values.messages[2].content[1].type, "image_url");
});

test("a run without a thread", async () => {
  const values = await client.runs.wait(null, "demo", { input: human("/say hello") });
  assert.equal(values.messages.at(-1).content, "hello");
});

test("bad input", async () => {
  const thread = await newThread();
  for (const [payload, error] of [
    [{ input: { messages: [{ type: "robot", content: "x" }] } }, /human, ai, system or tool/],
    [{ input: null }, /command.resume/],
    [{ input: human("x"), interruptBefore: ["agent"] }, /interrupt_before is not supported/],
    [{ input: human("x"), multitaskStrategy: "rollback" }, /multitask_strategy/],
    [{ input: human("x"), checkpointId: "other" }, /newest/],
    [{ input: human("x"), streamMode: "nonsense" }, /stream_mode/],
  ]) {
    await assert.rejects(client.runs.wait(thread, "demo", payload).then(() => collect(client.runs.stream(thread, "demo", payload))), error);
  }
  await assert.rejects(client.runs.wait("missing", "demo", { input: human("x") }), /404/);
  await assert.rejects(client.runs.wait(thread, "missing", { input: human("x") }), /there is no assistant/);
});

test("a deleted thread", async () => {
  const thread = await newThread();
  await client.runs.wait(thread, "demo", { input: human("/say hello") });
  await client.threads.delete(thread);
  await assert.rejects(client.threads.getState(thread), /404/);
});
