// The thread protocol of the LangGraph Agent Server, and the stream of a thread, with the published client: ThreadStream and
// threads.joinStream of @langchain/langgraph-sdk must work unmodified.
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";
import { test } from "./harness.mjs";
import { cutting } from "./proxy.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

const connect = (at = base) => new Client({ apiUrl: `${at}/langgraph`, apiKey: null, callerOptions: { maxRetries: 0 } });
const client = connect();
const human = (...lines) => ({ messages: [{ type: "human", content: lines.join("\n") }] });
const text = (state) => state.messages.map((m) => m.text ?? m.content);

// post sends a request to the thread protocol as it is.
const post = (thread, path, body, at = base) => fetch(`${at}/langgraph/threads/${thread}/${path}`, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
});

const command = async (thread, method, params, at) => (await post(thread, "commands", { id: 7, method, params }, at)).json();

// read reads the events of a thread until a condition is met.
async function read(thread, filter, enough, at = base) {
  const aborter = new AbortController();
  const response = await fetch(`${at}/langgraph/threads/${thread}/stream/events`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(filter), signal: aborter.signal,
  });
  assert.equal(response.status, 200, response.ok ? "" : await response.text());
  const events = [];
  let buffer = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const blocks = (buffer + part).split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").find((line) => line.startsWith("data: "));
      if (data) events.push(JSON.parse(data.slice(6)));
      if (data && enough(events.at(-1))) {
        aborter.abort();
        return events;
      }
    }
  }
  return assert.fail("the stream ended");
}

const all = ["values", "updates", "messages", "tools", "lifecycle", "input", "custom", "checkpoints", "tasks"];
const ended = (e) => e.method === "lifecycle" && ["completed", "failed", "interrupted"].includes(e.params.data.event);

test("a run by command, in all projections", async () => {
  const thread = client.threads.stream({ assistantId: "demo" });
  const messages = (async () => {
    const found = [];
    for await (const m of thread.messages) found.push({ text: await m.text, reasoning: await m.reasoning, usage: await m.usage });
    return found;
  })();
  const tools = (async () => {
    const found = {}; // the client yields a call at its start and at its end
    for await (const call of thread.toolCalls) found[call.callId] = [call.name, call.input, await call.output];
    return Object.values(found);
  })();
  const { run_id: run } = await thread.run.start({ input: human("/think hm", "/say let me see", '/tool calculator {"expression":"6*7"}', "/say it is 42") });
  const state = await thread.output;
  assert.deepEqual(text(state).filter((t) => t !== ""), ["/think hm\n/say let me see\n/tool calculator {\"expression\":\"6*7\"}\n/say it is 42", "let me see", "6*7 = 42", "it is 42"]);
  const said = await messages;
  assert.deepEqual(said.map((m) => m.text), ["let me see", "it is 42"]);
  assert.equal(said[0].reasoning, "hm");
  assert.ok(said[1].usage.total_tokens > 0);
  assert.deepEqual(await tools, [["calculator", { expression: "6*7" }, "6*7 = 42"]]);
  assert.equal((await client.runs.get(thread.threadId, run)).status, "success");
  await thread.close();
});

test("two runs on one stream, and a client that joins later on the other gateway", async () => {
  const thread = client.threads.stream({ assistantId: "demo" });
  await thread.run.start({ input: human("/say one") });
  assert.equal(text(await thread.output).at(-1), "one");
  await thread.run.start({ input: human("/say two") });
  for (;;) {
    const { status } = (await client.runs.list(thread.threadId))[0];
    if (status === "success") break;
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
  const late = connect(other).threads.stream(thread.threadId, { assistantId: "demo" });
  const values = await late.subscribe({ channels: ["values", "lifecycle"] });
  let last;
  for await (const e of values) {
    if (e.method === "values") last = e.params.data;
    if (ended(e)) break;
  }
  assert.deepEqual(last.messages.map((m) => m.content), ["/say one", "one", "/say two", "two"]);
  await Promise.all([thread.close(), late.close()]);
});

test("an interrupt, which another client answers by command", async () => {
  const thread = client.threads.stream({ assistantId: "careful" });
  await thread.run.start({ input: human('/tool calculator {"expression":"6*7"}', "/say done") });
  await thread.output;
  assert.equal(thread.interrupted, true);
  const [{ interruptId, payload }] = thread.interrupts;
  assert.equal((payload.actionRequests ?? payload.action_requests)[0].name, "calculator");
  const watcher = read(thread.threadId, { channels: all }, (e) => e.method === "lifecycle" && e.params.data.event === "completed", other);
  const second = connect(other).threads.stream(thread.threadId, { assistantId: "careful" });
  await assert.rejects(second.input.respond({ namespace: [], interrupt_id: "act_missing", response: true }), /no_such_interrupt|does not wait/);
  await second.input.respond({ namespace: [], interrupt_id: interruptId, response: { decisions: [{ type: "approve" }] } });
  const seen = await watcher;
  assert.equal(seen.findLast((e) => e.method === "values").params.data.messages.at(-1).content, "done");
  assert.deepEqual(seen.filter((e) => e.method === "input.requested").map((e) => e.params.data.interrupt_id), [interruptId]);
  assert.deepEqual(seen.filter((e) => e.method === "input.answered").map((e) => e.params.data.interrupt_ids), [[interruptId]]);
  await assert.rejects(second.input.respond({ namespace: [], interrupt_id: interruptId, response: true }), /no_such_interrupt|does not wait/);
  await Promise.all([thread.close(), second.close()]);
});

test("a question, answered by run.start", async () => {
  const thread = client.threads.stream({ assistantId: "careful" });
  await thread.run.start({ input: human("/ask Which color?", "/say thanks") });
  await thread.output;
  assert.equal(thread.interrupts[0].payload.question, "Which color?");
  const { result } = await command(thread.threadId, "run.start", { assistant_id: "careful", input: "blue" });
  assert.equal(text(await client.runs.join(thread.threadId, result.run_id)).at(-1), "thanks");
  await thread.close();
});

test("a cut connection continues on the other gateway, and no event comes twice", async () => {
  const proxy = await cutting(gateways, 1);
  const seen = [];
  const thread = connect(proxy.url).threads.stream({ assistantId: "demo", reconnectDelayMs: () => 10 });
  thread.onEvent((e) => seen.push(e));
  const messages = thread.messages;
  await thread.run.start({ input: human("/say one", '/tool echo {"text":"x","delay":"2s"}', "/say two") });
  const texts = [];
  for await (const m of messages) texts.push(await m.text);
  assert.equal(proxy.cuts, 1);
  assert.deepEqual(texts, ["one", "two"]);
  const ids = seen.map((e) => e.event_id);
  assert.equal(new Set(ids).size, ids.length);
  await thread.close();
  await proxy.close();
});

test("since resumes after any event, on any gateway", async () => {
  const { thread_id: thread } = await client.threads.create();
  await command(thread, "run.start", { assistant_id: "demo", input: human("/think hm", "/say one", '/tool calculator {"expression":"6*7"}', "/say two") });
  const whole = await read(thread, { channels: all }, ended);
  assert.equal(whole[0].params.data.event, "running");
  for (const [i, { seq }] of whole.entries()) {
    assert.ok(i === 0 || seq > whole[i - 1].seq, "the numbers grow");
    if (i === whole.length - 1) break;
    assert.deepEqual(await read(thread, { channels: all, since: seq }, ended, i % 2 ? base : other), whole.slice(i + 1));
  }
  assert.deepEqual(await read(thread, { channels: ["lifecycle"] }, ended), whole.filter((e) => e.method === "lifecycle"));
  await command(thread, "run.start", { assistant_id: "demo", input: human("/say three") });
  const next = await read(thread, { channels: all, since: whole.at(-1).seq }, ended);
  assert.equal(next.findLast((e) => e.method === "values").params.data.messages.at(-1).content, "three");
  assert.equal(next.findLast((e) => e.method === "values").params.data.messages.length, 6);
  const two = await read(thread, { channels: ["lifecycle"], since: 1 }, (e) => e.seq === next.at(-1).seq);
  assert.equal(two.length, 4, "the first run and the second one");
});

test("blocks of a message follow each other", async () => {
  const { thread_id: thread } = await client.threads.create();
  await command(thread, "run.start", { assistant_id: "demo", input: human("/think hm", "/say one", '/tool calculator {"expression":"6*7"}', "/say two") });
  let open; // the index of the open block
  const kinds = [];
  for (const { params: { data } } of (await read(thread, { channels: ["messages", "lifecycle"] }, ended)).filter((e) => e.method === "messages")) {
    if (data.event === "content-block-start") {
      assert.equal(open, undefined);
      open = data.index;
      kinds.push(data.content.type);
    } else if (data.event.startsWith("content-block")) assert.equal(data.index, open);
    if (data.event === "content-block-finish") open = undefined;
    if (data.event === "message-finish") kinds.push("finish");
  }
  assert.deepEqual(kinds, ["reasoning", "text", "tool_call_chunk", "finish", "text", "finish"]);
});

test("custom events are a channel each", async () => {
  const thread = client.threads.stream({ assistantId: "demo" });
  const charts = await (async () => {
    await thread.run.start({ input: human('/tool echo {"text":"x","emit":{"type":"chart","data":{"a":1}}}', "/say done") });
    return thread.extensions.chart;
  })();
  assert.deepEqual(await charts, { a: 1 });
  await thread.close();
});

test("an error, and a run that is cancelled", async () => {
  const { thread_id: thread } = await client.threads.create();
  await command(thread, "run.start", { assistant_id: "demo", input: human("/fail agent_error") });
  const failed = (await read(thread, { channels: ["lifecycle"] }, ended)).at(-1).params.data;
  assert.equal(failed.event, "failed");
  assert.match(failed.error, /line 1/);
  const { result } = await command(thread, "run.start", { assistant_id: "demo", input: human('/tool echo {"text":"x","delay":"1m"}', "/say never") });
  const following = read(thread, { channels: ["lifecycle"] }, (e) => e.event_id.startsWith(`synth:${result.run_id}:`) && ended(e), other);
  await client.runs.cancel(thread, result.run_id);
  assert.equal((await following).at(-1).params.data.event, "interrupted");
});

test("a message to the run that runs", async () => {
  const { thread_id: thread } = await client.threads.create();
  const { result } = await command(thread, "run.start", { assistant_id: "demo", input: human('/tool echo {"text":"x","delay":"2s"}', "/say one") });
  assert.deepEqual(await command(thread, "input.inject", { namespace: [], message: { role: "user", content: "/say two" } }, other), { type: "success", id: 7, result: {} });
  const values = await client.runs.join(thread, result.run_id);
  assert.ok(text(values).includes("/say two"));
  assert.equal((await command(thread, "input.inject", { namespace: [], message: { role: "user", content: "late" } })).error, "no_such_run");
});

test("the state by command", async () => {
  const thread = client.threads.stream({ assistantId: "demo" });
  await thread.run.start({ input: human("/say one") });
  await thread.output;
  const { values, checkpoint } = await thread.state.get({ namespace: [], keys: ["messages"] });
  assert.deepEqual(values.messages.map((m) => m.content), ["/say one", "one"]);
  const { checkpoints } = await thread.state.listCheckpoints({ namespace: [], limit: 1 });
  assert.equal(checkpoints[0].id, checkpoint.id);
  assert.deepEqual((await thread.agent.getTree()).tree, { namespace: [], status: "completed", graph_name: "demo" });
  await assert.rejects(thread.state.fork({ checkpoint_id: checkpoint.id }), /not_supported|no branches/);
  await thread.close();
});

test("bad input to the thread protocol", async () => {
  const { thread_id: thread } = await client.threads.create();
  for (const [method, params, error] of [
    ["run.start", { assistant_id: "missing", input: human("x") }, "invalid_argument"],
    ["run.start", { input: human("x") }, "invalid_argument"],
    ["run.start", { assistant_id: "demo", input: null }, "invalid_argument"],
    ["run.start", { assistant_id: "demo", input: human("x"), config: { configurable: { checkpoint_id: "other" } } }, "invalid_argument"],
    ["input.respond", { namespace: [], interrupt_id: "x", response: 1 }, "no_such_run"],
    ["input.inject", { message: { role: "system", content: "x" } }, "invalid_argument"],
    ["agent.getTree", {}, "no_such_run"],
    ["subscription.subscribe", { channels: ["values"] }, "not_supported"],
    ["nonsense", {}, "unknown_command"],
  ]) {
    const reply = await command(thread, method, params);
    assert.deepEqual([reply.type, reply.id, reply.error], ["error", 7, error], method);
    assert.match(reply.message, /./);
  }
  for (const body of [{}, { channels: [] }, { channels: ["nonsense"] }, { channels: ["values"], since: -1 }, { channels: ["values"], depth: -1 }]) {
    assert.equal((await post(thread, "stream/events", body)).status, 400);
  }
  assert.equal((await post(thread, "commands", { method: "" })).status, 400);
  assert.equal((await post("missing", "stream/events", { channels: ["values"] })).status, 404);
});

test("the stream of a thread has the streams of its runs", async () => {
  const { thread_id: thread } = await client.threads.create();
  const first = await client.runs.create(thread, "demo", { input: human('/tool echo {"text":"x","delay":"1s"}', "/say one"), streamMode: ["values", "messages-tuple"] });
  const events = [];
  const following = (async () => {
    for await (const e of connect(other).threads.joinStream(thread)) {
      events.push(e);
      if (events.filter(({ event }) => event === "end").length === 2) return;
    }
  })();
  await client.runs.join(thread, first.run_id);
  const second = await client.runs.create(thread, "demo", { input: human("/say two"), streamMode: "updates" });
  await following;
  assert.deepEqual(events.filter((e) => e.event === "metadata").map((e) => e.data.run_id), [first.run_id, second.run_id]);
  const begin = events.findIndex((e) => e.data?.run_id === second.run_id);
  assert.ok(events.slice(0, begin).some((e) => e.event === "messages"));
  assert.deepEqual([...new Set(events.slice(begin).map((e) => e.event))], ["metadata", "updates", "end"]);
  const middle = events.findIndex((e) => e.id && e.event === "values");
  const rest = [];
  for await (const e of client.threads.joinStream(thread, { lastEventId: events[middle].id })) {
    rest.push(e);
    if (rest.length === events.length - middle - 1) break;
  }
  assert.deepEqual(rest, events.slice(middle + 1));
  await assert.rejects((async () => { for await (const e of client.threads.joinStream(thread, { streamMode: "lifecycle" })) assert.fail(e); })(), /run_modes/);
});
