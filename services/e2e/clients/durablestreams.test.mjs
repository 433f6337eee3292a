// The read side of Durable Streams, tested with the published client: @durable-streams/client must work unmodified.
import assert from "node:assert/strict";
import { DurableStream, stream } from "@durable-streams/client";
import { test } from "./harness.mjs";
import { cutting } from "./proxy.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

const lines = (...all) => all.join("\n");

async function post(path, body, at = base) {
  const response = await fetch(at + path, { method: "POST", body: JSON.stringify(body) });
  assert.ok(response.ok, `${path}: ${response.status}`);
  return response.json();
}

// begin starts a request by the native protocol.
const begin = (text, more = {}, agent = "demo") => post(`/v1/agents/${agent}/requests`, { messages: [{ role: "user", content: text }], ...more });
const ofRequest = (id, at = base) => `${at}/streams/${id}`;
const ofThread = (id, at = base) => `${at}/streams/threads/${id}`;

// native reads a log by the native protocol, until its terminal event.
async function native(requestId) {
  const response = await fetch(`${other}/v1/requests/${requestId}/stream`, { headers: { Accept: "application/x-ndjson" } });
  return (await response.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// collect reads messages until there are enough, or until the stream is closed.
async function collect(response, enough = () => false, events = []) {
  for await (const event of response.jsonStream()) {
    events.push(event);
    if (enough(event)) break;
  }
  return events;
}

const textOf = (events) => events.filter((e) => e.event === "text" && e.stage === "delta").map((e) => e.delta).join("");

for (const live of ["sse", "long-poll", true]) {
  test(`a request, live ${live}`, async () => {
    const { requestId } = await begin(lines("/think a product", '/tool calculator {"expression":"6*7"}', "/stream 20 5", "/say it is 42"));
    const events = await collect(await stream({ url: ofRequest(requestId), offset: "-1", live }));
    assert.deepEqual(events, await native(requestId));
    assert.equal(events[0].event, "metadata");
    assert.equal(events.at(-1).event, "done");
    assert.match(textOf(events), /it is 42$/);
    for (const kind of ["thinking", "tool_call", "tool_result"]) assert.ok(events.some((e) => e.event === kind), kind);
  });
}

test("a cut connection, and the rest from the other gateway, live sse", async () => {
  const proxy = await cutting(gateways, 2, '"event":"text"');
  try {
    const { requestId } = await begin(lines("/stream 60 20", "/say the end"));
    const events = [];
    let offset = "-1";
    while (events.at(-1)?.event !== "done") {
      const response = await stream({ url: ofRequest(requestId, proxy.url), offset, live: "sse" });
      try {
        for await (const batch of batches(response)) {
          events.push(...batch.items);
          offset = batch.offset;
        }
      } catch (error) {
        assert.equal(error.name, "TypeError", error); // the client gives up on a cut that it cannot hide
      }
    }
    assert.ok(proxy.cuts > 0);
    assert.deepEqual(events, await native(requestId));
  } finally {
    await proxy.close();
  }
});

// whole is a fetch whose responses are complete: the client repeats one that was cut.
async function whole(...request) {
  const response = await fetch(...request);
  const empty = response.status === 204 || response.status === 304;
  return new Response(empty ? null : await response.arrayBuffer(), response);
}

test("a cut connection, and the rest from the other gateway, live long-poll", async () => {
  const proxy = await cutting(gateways, 2, '"event":"text"');
  try {
    const { requestId } = await begin(lines("/stream 60 20", "/say the end"));
    const events = await collect(await stream({ url: ofRequest(requestId, proxy.url), offset: "-1", live: "long-poll", fetch: whole }));
    assert.equal(proxy.cuts, 2);
    assert.deepEqual(events, await native(requestId));
  } finally {
    await proxy.close();
  }
});

// batches yields the messages with the offset after them, as a program stores both.
async function* batches(response) {
  const waiting = [];
  let wake = () => {};
  let ended;
  response.subscribeJson((batch) => { waiting.push(batch); wake(); });
  response.closed.then(() => { ended = {}; wake(); }, (error) => { ended = { error }; wake(); });
  for (;;) {
    while (waiting.length > 0) yield waiting.shift();
    if (ended?.error) throw ended.error;
    if (ended) return;
    await new Promise((next) => { wake = next; });
  }
}

test("a request that has ended", async () => {
  const { requestId } = await begin("/say hello");
  const wanted = await native(requestId);
  const response = await stream({ url: ofRequest(requestId), live: false });
  assert.deepEqual(await response.json(), wanted);
  assert.equal(response.streamClosed, true);
  const handle = await DurableStream.connect({ url: ofRequest(requestId, other) });
  const head = await handle.head();
  assert.equal(head.streamClosed, true);
  assert.equal(head.offset, response.offset);
  assert.equal(head.contentType, "application/json");
  const rest = await stream({ url: ofRequest(requestId), offset: response.offset, live: "sse" });
  assert.deepEqual(await collect(rest), []);
});

test("the offset of each message continues the stream on the other gateway", async () => {
  const { requestId } = await begin(lines("/think a", "/stream 5 1", "/say end"));
  const wanted = await native(requestId);
  const text = await (await fetch(`${ofRequest(requestId)}?offset=-1&live=sse`)).text();
  const offsets = [...text.matchAll(/"streamNextOffset":"([^"]*)"/g)].map((m) => m[1]);
  assert.deepEqual([...offsets].sort(), offsets);
  assert.equal(offsets.length, wanted.length);
  for (const [i, offset] of offsets.entries()) {
    const rest = await stream({ url: ofRequest(requestId, other), offset, live: false });
    assert.deepEqual(await rest.json(), wanted.slice(i + 1), offset);
  }
});

test("a thread with two requests, and an approval by a native client", async () => {
  const { threadId, requestId } = await begin('/approve echo {"text":"hi"}\n/say done');
  const events = [];
  const response = await stream({ url: ofThread(threadId, other), offset: "-1", live: "sse" });
  await collect(response, (e) => e.event === "done" && e.finishReason === "stop" || e.event === "continuation", events);
  const asked = events.at(-1);
  assert.equal(asked.event, "continuation");
  await native(requestId);
  const answer = { messages: [], threadId, context: { actionResults: [{ actionId: asked.actionId, status: "success" }] } };
  await post("/v1/agents/demo/requests", answer);
  const all = await collect(await stream({ url: ofThread(threadId), offset: "-1", live: true }), (e) => e.finishReason === "stop");
  assert.deepEqual(all.slice(0, events.length), events);
  assert.ok(all.some((e) => e.event === "tool_result" && e.status === "success"));
  assert.equal(all.filter((e) => e.event === "input").length, 2);
  assert.equal(all.filter((e) => e.event === "done").length, 2);
});

test("only what comes next", async () => {
  const { threadId, requestId } = await begin("/say one");
  await native(requestId);
  for (const live of ["sse", "long-poll"]) {
    const response = await stream({ url: ofThread(threadId), offset: "now", live });
    const next = collect(response, (e) => e.event === "done");
    await begin(`/say two ${live}`, { threadId });
    assert.equal(textOf(await next), `two ${live}`);
  }
});

test("an abort ends the stream", async () => {
  const { requestId } = await begin("/stream 10000 20");
  const events = await collect(await stream({ url: ofRequest(requestId), offset: "-1", live: "sse" }), (e) => {
    if (e.event === "text" && e.stage === "start") post(`/v1/requests/${requestId}/abort`, { reason: "enough" }, other);
  });
  assert.equal(events.at(-1).event, "aborted");
  assert.equal(events.at(-1).reason, "enough");
});

test("a failure is a message", async () => {
  const { requestId } = await begin("/fail agent_error");
  const events = await collect(await stream({ url: ofRequest(requestId), offset: "-1", live: true }));
  assert.equal(events.at(-1).event, "error");
});

test("a slow reader gets all of it", async () => {
  const { requestId } = await begin(lines("/stream 2000 0", "/say the end"));
  const response = await stream({ url: ofRequest(requestId), offset: "-1", live: "sse" });
  const events = [];
  for await (const event of response.jsonStream()) {
    if (events.length % 100 === 0) await new Promise((next) => setTimeout(next, 20));
    events.push(event);
  }
  assert.deepEqual(events, await native(requestId));
});

test("additional events", async () => {
  const { requestId } = await begin("/say hello");
  await native(requestId);
  const response = await stream({ url: `${ofRequest(requestId)}?include=input`, live: false });
  assert.deepEqual((await response.json()).filter((e) => e.event === "input").map((e) => e.messages[0].content), ["/say hello"]);
});

test("writes and unknown streams are refused", async () => {
  const { requestId } = await begin("/say hello");
  const handle = await DurableStream.connect({ url: ofRequest(requestId) });
  await assert.rejects(handle.append(JSON.stringify({ a: 1 })), (e) => e.status === 405);
  await assert.rejects(DurableStream.create({ url: ofRequest("new"), contentType: "application/json" }), (e) => e.status === 405);
  await assert.rejects(DurableStream.delete({ url: ofRequest(requestId) }), (e) => e.status === 405);
  await assert.rejects(stream({ url: ofRequest("none"), offset: "-1" }), (e) => e.status === 404);
  await assert.rejects(stream({ url: ofRequest(requestId), offset: "wrong", live: false }), (e) => e.status === 400);
});
