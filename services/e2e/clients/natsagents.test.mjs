// The Synadia Agent Protocol 0.3, by a client that is written from its description on the published client of NATS.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { connect, createInbox, headers } from "@nats-io/transport-node";
import { test } from "./harness.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several
const servers = process.env.AGENTBUS_NATS;

const lines = (...all) => all.join("\n");

// with connects to the broker while body runs.
async function broker(body) {
  const nc = await connect({ servers });
  try {
    await body(nc);
  } finally {
    await nc.close();
  }
}

// discover returns the instances of an agent.
async function discover(nc, agent = "demo") {
  const inbox = createInbox();
  const found = [];
  const sub = nc.subscribe(inbox, {
    callback: (_, m) => {
      const info = m.json();
      if (info.metadata.agent === agent) found.push(info);
    },
  });
  nc.publish("$SRV.INFO.agents", "", { reply: inbox });
  for (const end = Date.now() + 20_000; found.length < gateways.length && Date.now() < end;) {
    await new Promise((next) => setTimeout(next, 50));
  }
  sub.unsubscribe();
  return found;
}

const endpoint = (info, name) => info.endpoints.find((e) => e.name === name);

// prompt sends a prompt, and yields the chunks of its response.
async function* prompt(nc, subject, body, { id, answer = () => undefined } = {}) {
  const reply = createInbox();
  const sub = nc.subscribe(reply);
  const options = { reply };
  if (id) {
    options.headers = headers();
    options.headers.set("Nats-Msg-Id", id);
  }
  nc.publish(subject, typeof body === "string" ? body : JSON.stringify(body), options);
  for await (const m of sub) {
    if (m.data.length === 0 && !m.headers) return;
    const code = m.headers?.get("Nats-Service-Error-Code");
    if (code) {
      yield { type: "error", code: Number(code), description: m.headers.get("Nats-Service-Error"), body: m.json() };
      continue;
    }
    const chunk = m.json();
    if (chunk.type === "query") {
      const text = await answer(chunk.data);
      if (text !== undefined) nc.publish(chunk.data.reply_subject, text);
    }
    yield chunk;
  }
}

async function collect(chunks) {
  const seen = { text: "", chunks: [], ids: [] };
  for await (const c of chunks) {
    seen.chunks.push(c);
    if (c.type === "response") seen.text += c.data;
    if (c.type === "agentbus") seen.ids.push(c.data);
    if (c.type === "error") seen.error = c;
  }
  return seen;
}

const subject = (agent = "demo") => `agents.prompt.${agent}.acme.agentbus`;

test("discovery, status and signs of life", () => broker(async (nc) => {
  const found = await discover(nc);
  assert.equal(found.length, gateways.length);
  for (const info of found) {
    assert.equal(info.name, "agents");
    assert.equal(info.metadata.protocol_version, "0.3");
    assert.equal(endpoint(info, "prompt").subject, subject());
    assert.equal(endpoint(info, "prompt").queue_group, "agents");
  }
  const status = (await nc.request(endpoint(found[0], "status").subject)).json();
  assert.ok(found.some((info) => info.id === status.instance_id));
  const beats = nc.subscribe("agents.hb.demo.acme.*", { max: 1 });
  for await (const m of beats) assert.equal(m.json().interval_s, 1);
}));

test("a prompt", () => broker(async (nc) => {
  const seen = await collect(prompt(nc, subject(), lines("/think a product", '/tool calculator {"expression":"6*7"}', "/stream 20 5", "/say it is 42")));
  assert.deepEqual(seen.chunks[0], { type: "status", data: "ack" });
  assert.match(seen.text, /it is 42$/);
  assert.equal(seen.error, undefined);
  const log = await (await fetch(`${other}/streams/${seen.ids[0].requestId}`)).json();
  assert.equal(log.filter((e) => e.event === "text" && e.stage === "delta").map((e) => e.delta).join(""), seen.text);
}));

test("a second turn in the session", () => broker(async (nc) => {
  const session = randomUUID();
  await collect(prompt(nc, subject(), { prompt: "/say one", session }));
  const seen = await collect(prompt(nc, subject(), { prompt: "/say two", session }));
  assert.equal(seen.text, "two");
  const { messages } = await (await fetch(`${other}/v1/threads/${session}/messages`)).json();
  assert.equal(messages.filter((m) => m.role === "user").length, 2);
}));

test("files", () => broker(async (nc) => {
  const attachments = [{ filename: "a.txt", content: Buffer.from("a file").toString("base64") }];
  const seen = await collect(prompt(nc, subject(), { prompt: "/say read", attachments }));
  assert.equal(seen.text, "read");
}));

for (const [says, status] of [["yes", "success"], ["no", "denied"]]) {
  test(`an approval that is answered by ${says}`, () => broker(async (nc) => {
    const questions = [];
    const answer = (q) => { questions.push(q.prompt); return questions.length === 1 ? "perhaps" : says; };
    const seen = await collect(prompt(nc, subject(), '/approve echo {"text":"hi"}\n/say done', { answer }));
    assert.equal(questions.length, 2); // an answer that is neither is asked again
    assert.match(questions[0], /echo/);
    assert.match(seen.text, /done$/);
    assert.equal(seen.ids.length, 2);
    const log = await (await fetch(`${other}/streams/${seen.ids[1].requestId}`)).json();
    assert.ok(log.some((e) => e.event === "tool_result" && e.status === status), JSON.stringify(log));
  }));
}

test("a client of another protocol approves", () => broker(async (nc) => {
  const answer = async () => {
    const actions = await (await fetch(`${other}/v1/actions`)).json();
    const { threadId } = ids.at(-1);
    const open = (actions.actions ?? actions).find((a) => a.threadId === threadId);
    const body = { messages: [], threadId, context: { actionResults: [{ actionId: open.actionId, status: "success" }] } };
    const response = await fetch(`${other}/v1/agents/demo/requests`, { method: "POST", body: JSON.stringify(body) });
    assert.equal(response.status, 202);
  };
  const ids = [];
  let text = "";
  for await (const c of prompt(nc, subject(), '/approve echo {"text":"hi"}\n/say done', { answer })) {
    if (c.type === "agentbus") ids.push({ threadId: c.data.session });
    if (c.type === "response") text += c.data;
    assert.notEqual(c.type, "error", JSON.stringify(c));
  }
  assert.match(text, /done$/);
  assert.equal(ids.length, 2);
}));

test("a connection that is cut, and the same prompt again", () => broker(async (nc) => {
  const id = randomUUID();
  const body = lines("/stream 60 20", "/say the end");
  const cut = await connect({ servers });
  let first = "";
  let request;
  for await (const c of prompt(cut, subject(), body, { id })) {
    if (c.type === "agentbus") request = c.data.requestId;
    if (c.type === "response" && (first += c.data).length > 20) break;
  }
  await cut.close();
  const seen = await collect(prompt(nc, subject(), body, { id }));
  assert.equal(seen.ids[0].requestId, request);
  assert.ok(seen.text.startsWith(first));
  assert.match(seen.text, /the end$/);
}));

test("a failure", () => broker(async (nc) => {
  const seen = await collect(prompt(nc, subject(), "/say before\n/fail agent_error"));
  assert.equal(seen.text, "before");
  assert.equal(seen.error.code, 500);
  assert.equal(seen.error.body.code, "agent_error");
  assert.equal(seen.chunks.at(-1), seen.error);
}));

test("an abort by another client", () => broker(async (nc) => {
  const chunks = prompt(nc, subject(), "/stream 10000 20");
  const seen = { text: "" };
  for await (const c of chunks) {
    if (c.type === "agentbus") seen.request = c.data.requestId;
    if (c.type === "response" && seen.text === "") {
      seen.text = c.data;
      await fetch(`${other}/v1/requests/${seen.request}/abort`, { method: "POST", body: '{"reason":"enough"}' });
    }
    if (c.type === "error") seen.error = c;
  }
  assert.equal(seen.error.code, 409);
  assert.match(seen.error.description, /enough/);
}));

test("a slow reader gets all of it", () => broker(async (nc) => {
  const chunks = prompt(nc, subject(), lines("/stream 2000 0", "/say the end"));
  let text = "";
  let n = 0;
  for await (const c of chunks) {
    if (++n % 100 === 0) await new Promise((next) => setTimeout(next, 20));
    if (c.type === "response") text += c.data;
  }
  assert.match(text, /the end$/);
}));

test("errors before the request", () => broker(async (nc) => {
  for (const [body, code] of [["", 400], ["{", 400], ['{"prompt":""}', 400], ['{"prompt":"a","session":"a.b"}', 400]]) {
    const { chunks } = await collect(prompt(nc, subject(), body));
    assert.deepEqual(chunks.map((c) => [c.type, c.code]), [["error", code]], body);
  }
}));
