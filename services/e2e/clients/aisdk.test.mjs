// The AI SDK, tested with the published packages: Chat and useChat of @ai-sdk/react on DefaultChatTransport must work unmodified.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Chat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";
import { test } from "./harness.mjs";
import { cutter } from "./proxy.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

// open opens a chat, and records what its callbacks get.
function open(agent, { at = base, transport = {}, ...options } = {}) {
  const seen = { data: [], calls: [], errors: [], ends: [] };
  const chat = new Chat({
    id: randomUUID(),
    transport: new DefaultChatTransport({ api: `${at}/ai-sdk/${agent}`, ...transport }),
    onData: (part) => void seen.data.push(part),
    onToolCall: ({ toolCall }) => void seen.calls.push(toolCall),
    onError: (error) => void seen.errors.push(error),
    onFinish: (end) => void seen.ends.push(end),
    ...options,
  });
  return { chat, seen };
}

const say = (...lines) => ({ text: lines.join("\n") });
const parts = (message, type) => message.parts.filter((p) => p.type === type);
const text = (message) => parts(message, "text").map((p) => p.text).join("");
const shape = (messages) => messages.map(({ id, role, parts }) => ({ id, role, parts }));

// written is the text that a chat has received.
const written = (chat) => chat.lastMessage?.role === "assistant" && text(chat.lastMessage);

// until waits for a condition of a chat.
async function until(met) {
  while (!met()) await new Promise((later) => setTimeout(later, 10));
}

// native sends a request of the native protocol.
function native(chat, body, at = other) {
  return fetch(`${at}/v1/agents/demo/stream`, { method: "POST", body: JSON.stringify({ threadId: chat.id, ...body }) });
}

test("text", async () => {
  const { chat, seen } = open("demo");
  await chat.sendMessage(say("/say hello there"));
  assert.equal(chat.status, "ready");
  const answer = chat.lastMessage;
  assert.deepEqual(answer.parts.map((p) => [p.type, p.state]), [["step-start", undefined], ["text", "done"]]);
  assert.equal(text(answer), "hello there");
  assert.equal(answer.id, answer.metadata.requestId);
  assert.equal(answer.metadata.threadId, chat.id);
  assert.equal(answer.metadata.model, "scripted");
  assert.ok(answer.metadata.usage.outputTokens > 0);
  assert.deepEqual(seen.ends.map(({ isError, isAbort, finishReason }) => [isError, isAbort, finishReason]), [[false, false, "stop"]]);
});

test("reasoning, a server tool and its result", async () => {
  const { chat, seen } = open("demo", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
  await chat.sendMessage(say("/think a product", '/tool calculator {"expression":"6*7"}', "/say it is 42"));
  const types = chat.lastMessage.parts.map((p) => p.type);
  assert.deepEqual(types, ["step-start", "reasoning", "dynamic-tool", "step-start", "text"]);
  const [call] = parts(chat.lastMessage, "dynamic-tool");
  assert.equal(call.toolName, "calculator");
  assert.equal(call.state, "output-available");
  assert.deepEqual(call.input, { expression: "6*7" });
  assert.deepEqual([call.output.status, call.output.summary], ["success", "6*7 = 42"]);
  assert.deepEqual(seen.calls, [], "the client does not run tools of the server");
  assert.equal(seen.ends.length, 1);
});

test("a second turn sends the whole conversation, which is stored once", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say("/say first"));
  await chat.sendMessage(say("/say second"));
  assert.equal(text(chat.lastMessage), "second");
  assert.equal(chat.messages.length, 4);
  assert.equal(new Set(chat.messages.map((m) => m.id)).size, 4);
  const stored = await (await fetch(`${base}/v1/threads/${chat.id}/messages`)).json();
  assert.equal(stored.messages.filter((m) => m.role === "user").length, 2, JSON.stringify(stored));
});

test("a tool of the client", async () => {
  const { chat, seen } = open("demo", {
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall: ({ toolCall }) => {
      seen.calls.push(toolCall);
      void chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: { file: "a.pdf" } });
    },
  });
  await chat.sendMessage(say('/client-tool pick_file {"kind":"pdf"}', "/say thanks"));
  await until(() => chat.status === "ready" && seen.ends.length === 2);
  assert.deepEqual(seen.calls.map((c) => [c.toolName, c.input]), [["pick_file", { kind: "pdf" }]]);
  assert.equal(chat.messages.length, 2);
  const call = chat.lastMessage.parts.find((p) => p.toolCallId);
  assert.deepEqual([call.state, call.output], ["output-available", { file: "a.pdf" }]);
  assert.equal(text(chat.lastMessage), "thanks");
});

test("a tool that the request declares", async () => {
  const inputSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  const { chat, seen } = open("demo", { transport: { body: { tools: { pick_color: { description: "Asks.", inputSchema } } } } });
  await chat.sendMessage(say('/tool pick_color {"name":"wall"}', "/say painted"));
  const [call] = parts(chat.lastMessage, "tool-pick_color");
  assert.equal(call.state, "input-available");
  assert.equal(seen.calls.length, 1);
  await chat.addToolOutput({ tool: "pick_color", toolCallId: call.toolCallId, output: "blue" });
  await chat.sendMessage();
  assert.equal(text(chat.lastMessage), "painted");
  assert.equal(parts(chat.lastMessage, "tool-pick_color").length, 1);
});

test("an output of the client that is an error", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say("/client-tool pick_file {}", "/say as you like"));
  const { toolCallId } = chat.lastMessage.parts.find((p) => p.toolCallId);
  await chat.addToolOutput({ state: "output-error", tool: "pick_file", toolCallId, errorText: "no file" });
  await chat.sendMessage();
  assert.equal(text(chat.lastMessage), "as you like");
  assert.equal(chat.lastMessage.parts.find((p) => p.toolCallId).errorText, "no file");
});

for (const approved of [true, false]) {
  test(`an approval that is ${approved ? "given" : "denied"}`, async () => {
    const { chat, seen } = open("demo", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await chat.sendMessage(say('/approve echo {"text":"careful"}', "/say after"));
    const [call] = parts(chat.lastMessage, "dynamic-tool");
    assert.equal(call.state, "approval-requested");
    assert.ok(Date.parse(call.approval.descriptor.expiresAt) > Date.now());
    assert.equal(seen.ends[0].finishReason, "tool-calls");
    const { id } = chat.lastMessage;
    await chat.addToolApprovalResponse({ id: call.approval.id, approved, reason: "because" });
    await until(() => chat.status === "ready" && seen.ends.length === 2);
    assert.equal(chat.messages.length, 2);
    assert.equal(chat.lastMessage.id, id);
    const [ended] = parts(chat.lastMessage, "dynamic-tool");
    assert.equal(ended.state, approved ? "output-available" : "output-denied");
    assert.equal(ended.approval.approved, approved);
    assert.equal(text(chat.lastMessage), "after");
    assert.deepEqual(seen.errors, []);
  });
}

test("two actions of one turn that are answered one after the other", async () => {
  const { chat, seen } = open("demo", { transport: { body: { tools: { pick_file: { inputSchema: { type: "object" } } } } } });
  await chat.sendMessage(say('/tools pick_file {"a":1}; pick_file {"a":2}', "/say both"));
  for (const call of seen.calls.slice(0, 2)) {
    await chat.addToolOutput({ tool: "pick_file", toolCallId: call.toolCallId, output: call.input.a });
    await chat.sendMessage();
    assert.equal(chat.error, undefined);
  }
  assert.equal(text(chat.lastMessage), "both");
  assert.deepEqual(chat.lastMessage.parts.filter((p) => p.toolCallId).map((p) => p.output), [1, 2]);
});

test("a question to the user", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say("/ask Which page?", "/say thanks"));
  const [question] = parts(chat.lastMessage, "tool-ask_user");
  assert.deepEqual([question.state, question.input], ["input-available", { question: "Which page?" }]);
  await chat.addToolOutput({ tool: "ask_user", toolCallId: question.toolCallId, output: "3" });
  await chat.sendMessage();
  assert.equal(text(chat.lastMessage), "thanks");
  const events = await (await fetch(`${base}/v1/threads/${chat.id}/events?types=input`)).json();
  assert.equal(JSON.stringify(events).includes('"result":"3"'), true, JSON.stringify(events));
});

test("a message while an action waits closes the action", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say('/approve echo {"text":"careful"}', "/say after"));
  await chat.sendMessage(say("/say something else"));
  assert.equal(chat.error, undefined);
  assert.equal(text(chat.lastMessage), "something else");
  const [call] = parts(chat.messages[1], "dynamic-tool");
  await chat.addToolApprovalResponse({ id: call.approval.id, approved: true });
  await chat.sendMessage();
  assert.match(chat.error.message, /is not open on this thread/);
  await chat.sendMessage(say("/say further"));
  assert.equal(text(chat.lastMessage), "further");
});

test("a plan, an event of the application and a warning", async () => {
  const { chat, seen } = open("demo");
  await chat.sendMessage(say("/plan one; two", "/plan-done 1", '/custom example.chart {"points":[1,2]}', "/say done"));
  const plans = parts(chat.lastMessage, "data-plan");
  assert.equal(plans.length, 1);
  assert.deepEqual(plans[0].data.steps.map((s) => s.content), ["one", "two"]);
  const [custom] = parts(chat.lastMessage, "data-example.chart");
  assert.deepEqual(custom.data, { points: [1, 2] });
  assert.ok(seen.data.length >= 2);
});

test("an error", async () => {
  const { chat, seen } = open("demo");
  await chat.sendMessage(say("/say before", "/fail agent_error retryable"));
  assert.equal(chat.status, "error");
  assert.equal(seen.errors.length, 1);
  assert.ok(chat.error.message);
  assert.equal(text(chat.lastMessage), "before");
  assert.deepEqual(chat.lastMessage.metadata.error, { code: "agent_error", retryable: true });
  assert.ok(chat.lastMessage.parts.every((p) => p.state !== "streaming"));
  await chat.sendMessage(say("/say again"));
  assert.equal(text(chat.lastMessage), "again");
});

test("errors before the stream are texts", async () => {
  const { chat } = open("missing");
  await chat.sendMessage(say("hi"));
  assert.match(chat.error.message, /^there is no agent "missing"/);
  const wrong = open("demo", { id: "not a chat" });
  await wrong.chat.sendMessage(say("hi"));
  assert.match(wrong.chat.error.message, /^id "not a chat" must match/);
});

test("stop ends the request, and the chat goes on", async () => {
  const { chat, seen } = open("demo");
  const sent = chat.sendMessage(say("/stream 100000 20"));
  await until(() => written(chat));
  const stop = await fetch(`${other}/ai-sdk/demo/${chat.id}/stop`, { method: "POST" });
  assert.equal(stop.status, 202);
  await sent;
  assert.equal(chat.status, "ready");
  assert.ok(chat.lastMessage.parts.every((p) => p.state !== "streaming"));
  assert.equal(chat.lastMessage.metadata.finishReason, "aborted");
  assert.deepEqual(seen.errors, []);
  assert.equal((await fetch(`${base}/ai-sdk/demo/${chat.id}/stop`, { method: "POST" })).status, 204);
  await chat.sendMessage(say("/say next"));
  assert.equal(text(chat.lastMessage), "next");
});

test("there is nothing to resume in a chat without a request that runs", async () => {
  const { chat, seen } = open("demo");
  await chat.resumeStream();
  assert.deepEqual([chat.status, chat.messages.length], ["ready", 0]);
  await chat.sendMessage(say("/say done"));
  const before = shape(chat.messages);
  await chat.resumeStream();
  assert.deepEqual(shape(chat.messages), before);
  assert.deepEqual(seen.errors, []);
});

for (const [name, cut] of [
  ["a connection that is cut", undefined],
  ["a stream that ends early", (socket) => socket.end()],
]) {
  test(`${name}, and resume on another gateway`, async () => {
    const proxy = await cutter(base, 4000, cut);
    let at = proxy.url;
    const { chat, seen } = open("demo", {
      transport: { fetch: (url, init) => fetch(`${at}${new URL(url).pathname}`, init) },
    });
    await chat.sendMessage(say("/think some thoughts", "/stream 60 100", '/tool echo {"text":"x"}', "/say the end"));
    proxy.close();
    assert.equal(chat.status, "error", "the client must see that the connection was cut");
    assert.ok(text(chat.lastMessage).length > 0);
    at = other;
    const resumed = chat.resumeStream();
    const late = open("demo", { id: chat.id, at: other });
    await Promise.all([resumed, late.chat.resumeStream()]);
    assert.deepEqual([chat.status, chat.messages.length], ["ready", 2]);
    assert.deepEqual(shape([chat.lastMessage]), shape(late.chat.messages), "all readers have the same message");
    const [stream, end] = parts(chat.lastMessage, "text");
    assert.deepEqual(stream.text.match(/\d+/g).map(Number), Array.from({ length: 60 }, (_, i) => i));
    assert.equal(end.text, "the end");
    assert.equal(seen.ends.at(-1).finishReason, "stop");
    await chat.sendMessage(say("/say and on"));
    assert.equal(text(chat.lastMessage), "and on");
  });
}

test("a page that was cut before the end gets the last message on request", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say("/say done"));
  const late = open("demo", { id: chat.id, transport: { api: `${other}/ai-sdk/demo?replay=ended` } });
  await late.chat.resumeStream();
  assert.deepEqual(shape(late.chat.messages), shape([chat.lastMessage]));
});

test("a client that leaves does not end the request", async () => {
  const { chat } = open("demo");
  const sent = chat.sendMessage(say("/stream 40 60", "/say the end"));
  await until(() => written(chat));
  await chat.stop();
  await sent;
  await chat.resumeStream();
  assert.match(text(chat.lastMessage), /the end$/);
  assert.equal(chat.messages.length, 2);
});

test("a slow reader gets everything", async () => {
  const body = { id: randomUUID(), messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "/stream 3000 0\n/say the end" }] }] };
  const response = await fetch(`${base}/ai-sdk/demo`, { method: "POST", body: JSON.stringify(body) });
  assert.equal(response.headers.get("x-vercel-ai-ui-message-stream"), "v1");
  const thread = await fetch(`${other}/v1/requests/${response.headers.get("x-request-id")}/stream`);
  await thread.text(); // the request has ended, and the reader has read nothing
  const lines = (await response.text()).split("\n").filter((l) => l.startsWith("data: ")).map((l) => l.slice(6));
  assert.equal(lines.pop(), "[DONE]");
  const deltas = lines.map((l) => JSON.parse(l)).filter((c) => c.type === "text-delta").map((c) => c.delta);
  const numbers = deltas.join("").match(/\d+/g).map(Number);
  assert.deepEqual([numbers.length, numbers.at(-1)], [3000, 2999]);
});

test("a client of another protocol approves, and the chat follows", async () => {
  const { chat, seen } = open("demo");
  await chat.sendMessage(say('/approve echo {"text":"careful"}', "/stream 40 60", "/say after"));
  const [call] = parts(chat.lastMessage, "dynamic-tool");
  const { id } = chat.lastMessage;
  const approved = await native(chat, { messages: [], context: { actionResults: [{ actionId: call.approval.id, status: "success" }] } });
  assert.equal(approved.status, 200);
  await chat.resumeStream();
  assert.deepEqual([chat.status, chat.messages.length, chat.lastMessage.id], ["ready", 2, id]);
  const [ended] = parts(chat.lastMessage, "dynamic-tool");
  assert.deepEqual([ended.state, ended.approval.approved], ["output-available", true]);
  assert.match(text(chat.lastMessage), /after$/);
  assert.deepEqual(seen.errors, []);
  await approved.text();
  await chat.sendMessage(say("/say next"));
  assert.equal(text(chat.lastMessage), "next");
});

test("an approval after a page was loaded again", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say('/approve echo {"text":"careful"}', "/stream 40 60", "/say after"));
  const again = open("demo", { id: chat.id, messages: structuredClone(chat.messages), at: other });
  await again.chat.resumeStream();
  const [call] = parts(again.chat.lastMessage, "dynamic-tool");
  await again.chat.addToolApprovalResponse({ id: call.approval.id, approved: true });
  const sent = again.chat.sendMessage();
  await until(() => text(again.chat.lastMessage));
  await chat.resumeStream(); // the first page has the message without the answer
  await sent;
  const plain = (chat) => JSON.parse(JSON.stringify(shape(chat.messages)));
  assert.deepEqual(plain(chat), plain(again.chat));
  assert.match(text(chat.lastMessage), /after$/);
});

test("an approval that has expired", async () => {
  const { chat } = open("forgetful");
  await chat.sendMessage(say('/approve echo {"text":"careful"}', "/say after"));
  const [call] = parts(chat.lastMessage, "dynamic-tool");
  await until(() => Date.now() > Date.parse(call.approval.descriptor.expiresAt) + 6000);
  await chat.addToolApprovalResponse({ id: call.approval.id, approved: true });
  await chat.sendMessage();
  assert.match(chat.error.message, /expired at/);
  await chat.sendMessage(say("/say something else"));
  assert.equal(text(chat.lastMessage), "something else");
});

test("regenerate answers the last message again", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say("/say answer"));
  const { id } = chat.lastMessage;
  await chat.regenerate();
  assert.equal(chat.error, undefined);
  assert.deepEqual([chat.messages.length, text(chat.lastMessage)], [2, "answer"]);
  assert.notEqual(chat.lastMessage.id, id);
  await chat.sendMessage(say("/say next"));
  assert.equal(text(chat.lastMessage), "next");
});

test("regenerate after an error", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say("/fail agent_error"));
  assert.equal(chat.status, "error");
  await chat.regenerate();
  assert.equal(chat.status, "error");
  const stored = await (await fetch(`${base}/v1/threads/${chat.id}/messages`)).json();
  assert.equal(stored.messages.filter((m) => m.role === "user").length, 1, JSON.stringify(stored));
});

test("a message that the user edits is new", async () => {
  const { chat } = open("demo");
  await chat.sendMessage(say("/say first"));
  const { id } = chat.messages[0];
  await chat.sendMessage({ ...say("/say edited"), messageId: id });
  assert.equal(chat.error, undefined);
  assert.deepEqual([chat.messages.length, text(chat.lastMessage)], [2, "edited"]);
});

test("a conversation from elsewhere", async () => {
  const part = (text) => [{ type: "text", text }];
  const { chat } = open("demo", {
    messages: [
      { id: "u1", role: "user", parts: part("where is Turin?") },
      {
        id: "a1",
        role: "assistant",
        parts: [
          { type: "step-start" },
          { type: "reasoning", text: "hm" },
          { type: "tool-lookup", toolCallId: "c1", state: "output-available", input: { q: "Turin" }, output: { country: "Italy" } },
          { type: "step-start" },
          ...part("In Italy."),
        ],
      },
    ],
  });
  await chat.sendMessage(say("/say and Milan too"));
  assert.equal(text(chat.lastMessage), "and Milan too");
  const stored = await (await fetch(`${base}/v1/threads/${chat.id}/messages`)).json();
  assert.deepEqual(stored.messages.map((m) => m.role), ["user", "assistant", "assistant", "user", "assistant"], JSON.stringify(stored));
});

test("an image", async () => {
  const png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const { chat } = open("demo");
  await chat.sendMessage({ ...say("/say seen"), files: [{ type: "file", mediaType: "image/png", filename: "dot.png", url: png }] });
  assert.equal(text(chat.lastMessage), "seen");
  const stored = await (await fetch(`${base}/v1/threads/${chat.id}/messages`)).json();
  assert.equal(stored.messages[0].input.find((p) => p.type === "image")?.name, "dot.png", JSON.stringify(stored.messages[0]));
});

test("a steer", async () => {
  const { chat } = open("demo");
  const sent = chat.sendMessage(say("/stream 40 60", '/tool echo {"text":"x"}', "/say done"));
  await until(() => written(chat));
  const { requestId } = chat.lastMessage.metadata;
  const steer = await fetch(`${other}/v1/requests/${requestId}/steer`, {
    method: "POST",
    body: JSON.stringify({ messages: [{ role: "user", content: "/say steered" }] }),
  });
  assert.equal(steer.status, 202, await steer.text());
  await sent;
  assert.equal(chat.error, undefined);
  const [steered] = parts(chat.lastMessage, "steering-message");
  assert.deepEqual(steered.parts, [{ type: "text", text: "/say steered" }]);
});

test("an agent that is called", async () => {
  const { chat, seen } = open("lead");
  const task = ["/think deep", "/say inner"].join("\n");
  await chat.sendMessage(say(`/tool agent__helper ${JSON.stringify({ task })}`, "/say outer"));
  assert.equal(text(chat.lastMessage), "outer");
  const inner = seen.data.filter((d) => d.type === "data-subagent").map((d) => d.data);
  assert.ok(inner.some((d) => d.agentId === "helper" && d.inner.event === "text" && d.inner.text === "inner"));
  assert.equal(parts(chat.lastMessage, "data-subagent").length, 0, "they are transient");
});

for (const approved of [true, false]) {
  test(`an approval that an agent that is called needs, which is ${approved ? "given" : "denied"}`, async () => {
    const { chat, seen } = open("lead", { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    const task = ['/approve echo {"text":"careful"}', "/say inner"].join("\n");
    await chat.sendMessage(say(`/tool agent__helper ${JSON.stringify({ task })}`, "/say outer"));
    const call = chat.lastMessage.parts.find((p) => p.state === "approval-requested");
    assert.deepEqual([call.toolName, call.approval.descriptor.agentId], ["echo", "helper"]);
    await chat.addToolApprovalResponse({ id: call.approval.id, approved });
    await until(() => chat.status !== "submitted" && chat.status !== "streaming" && seen.ends.length === 2);
    assert.deepEqual(seen.errors, []);
    assert.equal(chat.lastMessage.parts.find((p) => p.toolName === "echo").state, approved ? "output-available" : "output-denied");
    assert.match(text(chat.lastMessage), /outer$/);
  });
}
