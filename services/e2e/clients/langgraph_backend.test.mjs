// The backend langgraph, with LangGraph's own server (@langchain/langgraph-api, what `langgraphjs dev` runs) and a graph in it, and
// with the gateway itself as the server.
import assert from "node:assert/strict";
import { mkdtemp } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@langchain/langgraph-sdk";
import { startServer } from "@langchain/langgraph-api/server";
import { test } from "./harness.mjs";
import { abort, actions, answers, results, run, serve, text } from "./upstream.mjs";

let port; // of LangGraph's server
let client; // of it

test("LangGraph's server starts", async () => {
  port = await new Promise((resolve) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => { const { port: free } = probe.address(); probe.close(() => resolve(free)); });
  });
  await startServer({
    port, host: "127.0.0.1", nWorkers: 10, cwd: await mkdtemp(join(tmpdir(), "langgraph-")),
    graphs: { agent: `${import.meta.dirname}/langgraph_agent.mjs:graph` },
  });
  client = new Client({ apiUrl: `http://127.0.0.1:${port}`, apiKey: null });
});

const requests = []; // what the backend sent
let cuts = 0; // streams to cut at the text "half"

// langgraph passes requests on to the server, and cuts streams.
async function langgraph({ req, res, url, body }) {
  const path = url.pathname.slice("/langgraph".length) + url.search;
  requests.push({ method: req.method, path, body, key: req.headers["x-api-key"], after: req.headers["last-event-id"] });
  const headers = { "Content-Type": "application/json", ...(req.headers["last-event-id"] ? { "Last-Event-ID": req.headers["last-event-id"] } : {}) };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: req.method, headers, body: body && JSON.stringify(body) });
  const pass = ["content-type", "content-location"].filter((name) => response.headers.has(name));
  res.writeHead(response.status, Object.fromEntries(pass.map((name) => [name, response.headers.get(name)])));
  for await (const chunk of response.body ?? []) {
    res.write(chunk);
    if (cuts > 0 && Buffer.from(chunk).includes('"half"')) {
      cuts--;
      await new Promise((resolve) => { setTimeout(resolve, 50); });
      return res.destroy();
    }
  }
  return res.end();
}

await serve({ "/langgraph": langgraph });

const runsSent = () => requests.filter((r) => r.path.endsWith("/runs/stream"));
const thread = () => runsSent().at(-1).path.split("/")[2];

test("text, reasoning, tools that run upstream, a plan, custom events and usage are shown", async () => {
  const events = await run("langgraph", "everything");
  assert.equal(text(events), "all done");
  assert.equal(events.find((e) => e.event === "thinking" && e.stage === "stop").thinking, "hm");
  const call = events.find((e) => e.event === "tool_call" && e.stage === "stop");
  assert.deepEqual([call.name, call.args, call.byAgent], ["read_file", { path: "a" }, true]);
  assert.deepEqual(results(events), [["success", "the text of a"]]);
  assert.deepEqual(events.filter((e) => e.event === "plan").at(-1).steps.map((s) => s.done), [true, false]);
  assert.deepEqual(events.filter((e) => e.event === "custom").map((e) => [e.type, e.data]), [["shop.cart", { items: 2 }]]);
  const { usage, finishReason } = events.at(-1);
  assert.deepEqual([usage.inputTokens, usage.outputTokens, finishReason], [20, 8, "stop"]);
  assert.equal(runsSent().at(-1).key, "lsv2-key", "the key is in its header");
});

test("the server keeps the conversation, and gets the new messages alone", async () => {
  const first = await run("langgraph", "one");
  const second = await run("langgraph", "two", { threadId: first[0].threadId });
  assert.equal(text(second), "human:one ai:human:one human:two");
  assert.deepEqual(runsSent().at(-1).body.input.messages.map((m) => m.content), ["two"]);
  const other = await client.threads.getState(thread());
  assert.equal(other.values.messages.length, 4);
});

test("a conversation that the server has lost is sent again", async () => {
  const first = await run("langgraph", "one");
  await client.threads.delete(thread());
  const second = await run("langgraph", "two", { threadId: first[0].threadId });
  assert.equal(text(second), "human:one ai:human:one human:two");
});

test("an interrupt about tools is an approval, and its answer resumes the run", async () => {
  for (const [given, want, status] of [
    [{ status: "success" }, "deploy: deployed", "success"],
    [{ status: "denied", error: "not today" }, /^deploy: .*not today/, "error"],
  ]) {
    const asked = await run("langgraph", "deploy");
    assert.equal(asked.at(-1).finishReason, "action_required");
    assert.deepEqual(actions(asked).map((a) => [a.kind, a.payload.name, a.payload.args]), [["approval", "deploy", { to: "prod" }]]);
    const resumed = await run("langgraph", undefined, answers(asked, given));
    assert.match(text(resumed), new RegExp(want));
    assert.equal(results(resumed).at(-1)[0], status);
  }
});

test("several questions are answered together", async () => {
  const asked = await run("langgraph", "ask");
  assert.deepEqual(actions(asked).map((a) => [a.kind, a.payload.question]).sort(), [["input", "When?"], ["input", "Where?"]]);
  const given = actions(asked).map((a) => ({ status: "success", result: a.payload.question === "When?" ? "now" : { city: "Oslo" } }));
  const resumed = await run("langgraph", undefined, answers(asked, ...given));
  assert.equal(text(resumed), 'When? "now", Where? {"city":"Oslo"}');
});

test("a new message in place of an answer", async () => {
  const asked = await run("langgraph", "deploy");
  const next = await run("langgraph", "hello", { threadId: asked[0].threadId });
  assert.match(text(next), /human:hello$/);
});

test("an abort cancels the run", async () => {
  const events = await run("langgraph", "slow", {}, async (e) => {
    if (e.event === "text" && e.stage === "start") await abort(e.requestId);
  });
  assert.equal(events.at(-1).event, "aborted");
  const at = thread();
  for (;;) {
    const [newest] = await client.runs.list(at);
    if (newest.status === "interrupted") break;
    assert.notEqual(newest.status, "success");
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  const next = await run("langgraph", "hello", { threadId: events[0].threadId });
  assert.match(text(next), /human:hello$/);
});

test("a stream that is cut is joined after its last event", async () => {
  cuts = 1;
  const events = await run("langgraph", "cut");
  assert.equal(cuts, 0);
  assert.equal(text(events), "half and whole");
  assert.equal(events.filter((e) => e.event === "text" && e.stage === "start").length, 1, "the text is not begun again");
  assert.equal((await client.runs.list(thread())).length, 1, "the run was not sent again");
  assert.ok(requests.some((r) => r.method === "GET" && r.path.endsWith("/stream") && Number(r.after) > 0));
});

test("an error of the graph is an error of the request", async () => {
  const { event, message, retryable } = (await run("langgraph", "fail")).at(-1);
  assert.deepEqual([event, retryable], ["error", false]);
  assert.match(message, /no such customer/);
});

test("an assistant that the server lacks is named with those that it has", async () => {
  const { event, message } = (await run("langgraph_lost", "hello")).at(-1);
  assert.equal(event, "error");
  assert.match(message, /no assistant "missing"; it has agent/);
});

test("agentbus runs agentbus", async () => {
  const first = await run("langgraph_mirror", '/think hm\n/tool calculator {"expression":"6*7"}\n/say it is 42');
  assert.equal(text(first), "it is 42");
  assert.deepEqual(results(first), [["success", "6*7 = 42"]]);
  const second = await run("langgraph_mirror", "/say again", { threadId: first[0].threadId });
  assert.equal(text(second), "again");
  const asked = await run("langgraph_mirror", '/approve calculator {"expression":"2+2"}\n/ask Which city?\n/say done', { threadId: first[0].threadId });
  assert.equal(actions(asked)[0].kind, "approval");
  const allowed = await run("langgraph_mirror", undefined, answers(asked, { status: "success" }));
  assert.ok(results(allowed).some(([status, content]) => status === "success" && content === "2+2 = 4"));
  assert.equal(actions(allowed)[0].payload.question, "Which city?");
  const answered = await run("langgraph_mirror", undefined, answers(allowed, { status: "success", result: "Oslo" }));
  assert.equal(text(answered), "done");
});
