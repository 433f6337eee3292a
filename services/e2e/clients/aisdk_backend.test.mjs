// The backend ai-sdk, with routes on the published package ai, and with the gateway itself as the agent.
import assert from "node:assert/strict";
import {
  convertToModelMessages, createUIMessageStream, createUIMessageStreamResponse, isStepCount, jsonSchema, JsonToSseTransformStream, simulateReadableStream,
  streamText, tool, UI_MESSAGE_STREAM_HEADERS, validateUIMessages,
} from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Readable } from "node:stream";
import { test } from "./harness.mjs";
import { abort, actions, answers, results, run, serve, text } from "./upstream.mjs";

const bodies = []; // of all turns
const deployed = []; // what the tool deploy has run with
const closed = []; // chats whose client left
const streams = new Map(); // what runs, by chat

const secret = "a secret of the approvals";
const usage = { inputTokens: { total: 10, noCache: 10 }, outputTokens: { total: 4, text: 4 } };
const finish = (unified) => ({ type: "finish", finishReason: { unified, raw: unified }, usage });
const says = (id, ...words) => [{ type: "text-start", id }, ...words.map((delta) => ({ type: "text-delta", id, delta })), { type: "text-end", id }];
const calls = (toolCallId, toolName, input) => ({ type: "tool-call", toolCallId, toolName, input: JSON.stringify(input) });

// speak is the model: what the prompt ends with decides what it does.
function speak(prompt) {
  const last = prompt.at(-1);
  const said = prompt.findLast((m) => m.role === "user").content.map((p) => p.text).join("");
  if (last.role === "tool") {
    return [...says("t", last.content.filter((p) => p.type === "tool-result").map((p) => JSON.stringify(p.output)).join(" ")), finish("stop")];
  }
  switch (said) {
    case "everything":
      return [
        { type: "reasoning-start", id: "r" }, { type: "reasoning-delta", id: "r", delta: "hm" },
        { type: "reasoning-end", id: "r", providerMetadata: { mock: { signature: "E" } } },
        ...says("t", "I ", "read"), calls("c1", "read_file", { path: "a" }),
        { type: "source", sourceType: "url", id: "s1", url: "https://example.com/" }, finish("tool-calls"),
      ];
    case "deploy":
      return [...says("t", "I deploy"), calls("c1", "deploy", { to: "prod" }), calls("c2", "deploy", { to: "test" }), finish("tool-calls")];
    case "locate":
      return [calls("c1", "get_location", {}), finish("tool-calls")];
    case "fail":
      return [{ type: "error", error: new Error("no such customer") }];
    default:
      return [...says("t", prompt.map((m) => `${m.role}:${typeof m.content === "string" ? m.content : m.content.map((p) => p.text ?? p.type).join("+")}`).join(" ")), finish("stop")];
  }
}

const model = new MockLanguageModelV4({
  modelId: "mock-model",
  doStream: async ({ prompt }) => ({ stream: simulateReadableStream({ chunks: [{ type: "stream-start", warnings: [] }, ...speak(prompt)] }) }),
});

const read = tool({ inputSchema: jsonSchema({ type: "object", properties: { path: { type: "string" } } }), execute: async ({ path }) => ({ path, text: "the text" }) });
const deploy = tool({ inputSchema: jsonSchema({ type: "object", properties: { to: { type: "string" } } }), execute: async ({ to }) => { deployed.push(to); return `deployed to ${to}`; } });

// route is a route as an application has it.
async function route({ req, res, body, url }) {
  if (req.method === "GET") {
    assert.match(url.pathname, /^\/aisdk\/thr_[a-z0-9]+\/stream$/);
    return resume(url.pathname.split("/")[2], res);
  }
  bodies.push(body);
  res.on("close", () => closed.push(body.id));
  const client = Object.fromEntries(Object.entries(body.tools ?? {}).map(([name, { description }]) => [name, tool({ description, inputSchema: jsonSchema({ type: "object" }) })]));
  const tools = { read_file: read, deploy, ...client };
  const messages = await validateUIMessages({ messages: body.messages, tools });
  const said = messages.findLast((m) => m.role === "user").parts[0].text;
  if (said === "cut" || said === "lost") return cut(body, said, res);
  if (said === "slow") return slow(res);
  const result = streamText({
    model, messages: await convertToModelMessages(messages), instructions: body.system, tools,
    toolApproval: { deploy: "user-approval" }, experimental_toolApprovalSecret: secret, stopWhen: isStepCount(5), onError: () => {},
  });
  const response = createUIMessageStreamResponse({
    stream: createUIMessageStream({
      originalMessages: messages,
      execute: ({ writer }) => {
        if (said === "everything") writer.write({ type: "data-cart", data: { items: 2 } });
        writer.merge(result.toUIMessageStream({
          sendSources: true, originalMessages: messages, onError: (error) => error.message,
          messageMetadata: ({ part }) => part.type === "finish" ? { totalUsage: part.totalUsage, model: "mock-model" } : undefined,
        }));
      },
      onError: (error) => error.message,
    }),
  });
  return pipe(response, res);
}

function pipe(response, res) {
  res.writeHead(response.status, Object.fromEntries(response.headers));
  Readable.fromWeb(response.body).on("error", () => res.destroy()).pipe(res);
}

// cut ends the connection in the middle of an answer. One that was lost cannot be resumed.
function cut(body, said, res) {
  const sent = bodies.filter((b) => b.id === body.id).length;
  const chunks = [
    { type: "start", messageId: `m-${body.id}` }, ...says("0", "half"), { type: "tool-input-available", toolCallId: "c1", toolName: "read_file", input: { path: "a" } },
    { type: "tool-output-available", toolCallId: "c1", output: "A" }, ...says("0", " and", " whole"), { type: "finish", finishReason: "stop" },
  ];
  if (said === "cut") streams.set(body.id, chunks);
  const stream = simulateReadableStream({ chunks: sent > 1 ? chunks : chunks.slice(0, 8) });
  res.writeHead(200, UI_MESSAGE_STREAM_HEADERS);
  const lines = Readable.fromWeb(stream.pipeThrough(new JsonToSseTransformStream()).pipeThrough(new TextEncoderStream()));
  lines.on("data", (line) => {
    if (sent === 1 && String(line).includes("[DONE]")) return setTimeout(() => res.destroy(), 20);
    return res.write(line);
  });
  lines.on("end", () => sent > 1 && res.end());
}

function resume(chat, res) {
  const chunks = streams.get(chat);
  if (chunks === undefined) return res.writeHead(204).end();
  const stream = createUIMessageStream({ execute: ({ writer }) => chunks.forEach((c) => writer.write(c)) });
  return pipe(createUIMessageStreamResponse({ stream }), res);
}

function slow(res) {
  res.writeHead(200, UI_MESSAGE_STREAM_HEADERS);
  const chunks = [{ type: "start", messageId: "m" }, { type: "tool-input-available", toolCallId: "w", toolName: "read_file", input: { path: "a" } }, ...says("0", "begun")];
  for (const c of chunks) res.write(`data: ${JSON.stringify(c)}\n\n`); // the connection stays open
}

await serve({ "/aisdk": route });

test("text, reasoning, tools that run upstream, sources, data parts and usage are shown", async () => {
  const events = await run("aisdk", "everything");
  assert.equal(text(events), 'I read{"type":"json","value":{"path":"a","text":"the text"}}');
  assert.equal(events.find((e) => e.event === "thinking" && e.stage === "stop").thinking, "hm");
  const call = events.find((e) => e.event === "tool_call" && e.stage === "stop");
  assert.deepEqual([call.name, call.args, call.byAgent], ["read_file", { path: "a" }, true]);
  assert.deepEqual(results(events), [["success", '{"path":"a","text":"the text"}']]);
  assert.deepEqual(events.filter((e) => e.event === "custom").map((e) => [e.type, e.data]), [
    ["cart", { items: 2 }], ["ai-sdk.source", { id: "s1", url: "https://example.com/" }],
  ]);
  const { usage, finishReason } = events.at(-1);
  assert.deepEqual([usage.inputTokens, usage.outputTokens, finishReason], [20, 8, "stop"]);
});

test("the conversation goes back as UI messages that the package accepts", async () => {
  const first = await run("aisdk", "everything");
  const second = await run("aisdk", "again", { threadId: first[0].threadId });
  assert.equal(text(second), "user:everything assistant:hm+I read+tool-call tool:tool-result assistant:" + text(first).slice("I read".length) + " user:again");
  const [earlier, { id, messages }] = bodies.slice(-2);
  assert.equal(id, earlier.id);
  assert.deepEqual(messages.map((m) => m.role), ["user", "assistant", "user"]);
  assert.equal(messages[0].id, earlier.messages[0].id);
  const parts = messages[1].parts;
  assert.deepEqual(parts.find((p) => p.type === "reasoning").providerMetadata, { mock: { signature: "E" } });
  assert.deepEqual(parts.find((p) => p.type === "tool-read_file").output, { path: "a", text: "the text" });
});

test("an agent that stores the chat gets the new messages alone", async () => {
  const first = await run("aisdk_new", "one");
  await run("aisdk_new", "two", { threadId: first[0].threadId });
  const { messages, message } = bodies.at(-1);
  assert.deepEqual([messages, message], [[message], { ...message, role: "user", parts: [{ type: "text", text: "two" }] }]);
});

test("signed approvals are actions, and each decision is sent once", async () => {
  deployed.length = 0;
  const asked = await run("aisdk", "deploy");
  assert.equal(asked.at(-1).finishReason, "action_required");
  assert.deepEqual(actions(asked).map((a) => [a.kind, a.payload.name, a.payload.args]), [["approval", "deploy", { to: "prod" }], ["approval", "deploy", { to: "test" }]]);
  const resumed = await run("aisdk", undefined, answers(asked, { status: "success" }, { status: "denied", error: "not there" }));
  assert.deepEqual(results(resumed).filter(([status]) => status === "success").at(-1), ["success", "deployed to prod"]);
  assert.deepEqual(deployed, ["prod"]);
  const { messages, messageId } = bodies.at(-1);
  assert.equal(messages.at(-1).id, messageId);
  assert.deepEqual(messages.at(-1).parts.filter((p) => p.type === "tool-deploy").map((p) => [p.state, p.approval.approved, p.approval.reason]), [
    ["approval-responded", true, undefined], ["approval-responded", false, "not there"],
  ]);
  const later = await run("aisdk", "thanks", { threadId: asked[0].threadId });
  assert.equal(later.at(-1).event, "done");
  assert.deepEqual(deployed, ["prod"]);
  assert.deepEqual(bodies.at(-1).messages[1].parts.filter((p) => p.type === "tool-deploy").map((p) => [p.state, p.output]), [
    ["output-available", "deployed to prod"], ["output-denied", undefined],
  ]);
});

test("a tool of the client, and one of agentbus, run where they are", async () => {
  const tools = [{ name: "get_location", description: "where", schema: { type: "object" } }];
  const asked = await run("aisdk", "locate", { tools });
  assert.deepEqual(actions(asked).map((a) => [a.kind, a.payload.name]), [["tool", "get_location"]]);
  const done = await run("aisdk", undefined, { tools, ...answers(asked, { status: "success", result: { city: "Oslo" } }) });
  assert.equal(text(done), '{"type":"json","value":{"city":"Oslo"}}');
});

test("an abort closes the connection, and the tool that runs is shown before", async () => {
  const events = await run("aisdk", "slow", {}, async (e) => {
    if (e.event === "text" && e.stage === "start") await abort(e.requestId);
  });
  assert.equal(events.at(-1).event, "aborted");
  assert.ok(events.some((e) => e.event === "tool_call" && e.name === "read_file" && e.byAgent));
  while (!closed.includes(bodies.at(-1).id)) await new Promise((resolve) => { setTimeout(resolve, 10); });
});

test("an answer that is cut is resumed where the route can, with onCrash: error too", async () => {
  for (const agent of ["aisdk", "aisdk_once"]) {
    const before = bodies.length;
    const events = await run(agent, "cut");
    assert.equal(text(events), "half and whole");
    assert.deepEqual(results(events), [["success", "A"]]);
    assert.deepEqual([events.at(-1).event, bodies.length - before], ["done", 1]);
  }
});

test("an answer that is lost is sent again, or fails with onCrash: error", async () => {
  const again = await run("aisdk", "lost");
  assert.equal(again.at(-1).event, "done");
  assert.match(text(again), / and whole$/);
  const failed = await run("aisdk_once", "lost");
  assert.deepEqual([failed.at(-1).event, failed.at(-1).retryable], ["error", true]);
});

test("an error of the agent is an error of the request", async () => {
  const { event, message, retryable } = (await run("aisdk", "fail")).at(-1);
  assert.deepEqual([event, retryable], ["error", false]);
  assert.match(message, /no such customer/);
});

test("agentbus runs agentbus", async () => {
  const first = await run("aisdk_mirror", '/think hm\n/tool calculator {"expression":"6*7"}\n/say it is 42');
  assert.equal(text(first), "it is 42");
  assert.equal(results(first)[0][0], "success");
  const second = await run("aisdk_mirror", "/say again", { threadId: first[0].threadId });
  assert.equal(text(second), "again");
  const asked = await run("aisdk_mirror", '/approve calculator {"expression":"2+2"}\n/say done', { threadId: first[0].threadId });
  assert.equal(actions(asked)[0].kind, "approval");
  const allowed = await run("aisdk_mirror", undefined, answers(asked, { status: "success" }));
  assert.equal(text(allowed), "done");
});
