// AG-UI, tested with the published client: @ag-ui/client must work unmodified.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";
import { test } from "./harness.mjs";
import { cutter } from "./proxy.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

const agui = (agent, at = base) => `${at}/agui/${agent}`;

// connecting is the client with a route to connect to: HttpAgent leaves it to its subclasses.
class Connecting extends HttpAgent {
  connect(input) {
    return new HttpAgent({ url: `${this.url}/connect`, headers: this.headers }).run(input);
  }
}

function start(agent, options = {}) {
  return new Connecting({ url: agui(agent), threadId: randomUUID(), ...options });
}

const user = (...lines) => ({ id: randomUUID(), role: "user", content: lines.join("\n") });

// run runs the agent, and returns what its subscriber saw. Warnings of the client about what it strips fail the test.
async function run(agent, parameters = {}, call = "runAgent") {
  const seen = { events: [], finished: undefined, error: undefined, failed: undefined, warnings: [] };
  const warn = console.warn;
  const error = console.error;
  console.warn = (...text) => seen.warnings.push(text.join(" "));
  console.error = () => {};
  try {
    const { newMessages } = await agent[call](parameters, {
      onEvent: ({ event }) => void seen.events.push(event),
      onRunFinishedEvent: (p) => void (seen.finished = p),
      onRunErrorEvent: ({ event }) => void (seen.error = event),
      onRunFailed: ({ error }) => void (seen.failed = error),
    });
    seen.newMessages = newMessages;
  } catch (e) {
    seen.failed = e;
  } finally {
    console.warn = warn;
    console.error = error;
  }
  assert.deepEqual(seen.warnings, []);
  return seen;
}

const types = (seen) => seen.events.map((e) => e.type);
const text = (messages) => messages.filter((m) => m.role === "assistant" && m.content).map((m) => m.content).join("");

test("text", async () => {
  const agent = start("demo");
  agent.addMessage(user("/say hello there"));
  const runId = randomUUID();
  const seen = await run(agent, { runId });
  assert.equal(seen.failed, undefined);
  assert.equal(seen.finished?.outcome, "success");
  assert.equal(text(seen.newMessages), "hello there");
  assert.equal(seen.events[0].type, "RUN_STARTED");
  assert.equal(seen.events[0].runId, runId);
  assert.equal(seen.events[0].threadId, agent.threadId);
  assert.equal(seen.finished.event.usage[0].model, "scripted");
});

test("reasoning, a server tool and its result", async () => {
  const agent = start("demo");
  agent.addMessage(user("/think a product", '/tool calculator {"expression":"6*7"}', "/say it is 42"));
  const seen = await run(agent);
  assert.equal(seen.finished?.outcome, "success");
  const roles = seen.newMessages.map((m) => m.role);
  assert.deepEqual(roles, ["reasoning", "assistant", "tool", "assistant"]);
  const [reasoning, call, result, answer] = seen.newMessages;
  assert.equal(reasoning.content, "a product");
  assert.equal(call.toolCalls[0].function.name, "calculator");
  assert.deepEqual(JSON.parse(call.toolCalls[0].function.arguments), { expression: "6*7" });
  assert.equal(result.toolCallId, call.toolCalls[0].id);
  assert.equal(result.content, "6*7 = 42");
  assert.equal(answer.content, "it is 42");
  assert.deepEqual(seen.finished.pendingToolCallIds, []);
});

test("a second turn on the same thread sends the whole history", async () => {
  const agent = start("demo");
  agent.addMessage(user("/say first"));
  await run(agent);
  agent.addMessage(user("/say second"));
  const seen = await run(agent);
  assert.equal(text(seen.newMessages), "second");
  assert.equal(agent.messages.length, 4);
  const stored = await (await fetch(`${base}/v1/threads/${agent.threadId}/messages`)).json();
  const users = stored.messages.filter((m) => m.role === "user").length;
  assert.equal(users, 2, JSON.stringify(stored));
});

test("a tool of the client", async () => {
  const agent = start("demo");
  agent.addMessage(user('/client-tool pick_file {"kind":"pdf"}', "/say thanks"));
  const seen = await run(agent);
  assert.equal(seen.finished?.outcome, "success");
  const call = seen.newMessages.at(-1).toolCalls[0];
  assert.deepEqual(seen.finished.pendingToolCallIds, [call.id]);
  assert.equal(call.function.name, "pick_file");
  agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: '{"file":"a.pdf"}' });
  const next = await run(agent);
  assert.equal(next.failed, undefined);
  assert.equal(text(next.newMessages), "thanks");
  assert.equal(agent.messages.filter((m) => m.role === "tool").length, 1, "the client has the result already");
});

for (const approved of [true, false]) {
  test(`an approval that is ${approved ? "given" : "denied"}`, async () => {
    const agent = start("demo");
    agent.addMessage(user('/approve echo {"text":"careful"}', "/say after"));
    const seen = await run(agent);
    assert.equal(seen.finished?.outcome, "interrupt");
    const [interrupt] = seen.finished.interrupts;
    assert.equal(seen.finished.interrupts.length, 1);
    assert.equal(interrupt.reason, "tool_approval");
    assert.equal(interrupt.toolCallId, seen.newMessages.at(-1).toolCalls[0].id);
    assert.ok(Date.parse(interrupt.expiresAt) > Date.now());
    const next = await run(agent, { resume: [{ interruptId: interrupt.id, status: "resolved", payload: { approved } }] });
    assert.equal(next.finished?.outcome, "success");
    const result = next.events.find((e) => e.type === "TOOL_CALL_RESULT");
    assert.equal(result.metadata.status, approved ? "success" : "denied");
    assert.equal(text(next.newMessages), "after");
  });
}

test("a question to the user", async () => {
  const agent = start("demo");
  agent.addMessage(user("/ask Which page?", "/say thanks"));
  const seen = await run(agent);
  const [interrupt] = seen.finished.interrupts;
  assert.equal(interrupt.message, "Which page?");
  const next = await run(agent, { resume: [{ interruptId: interrupt.id, status: "resolved", payload: { answer: "3" } }] });
  assert.equal(text(next.newMessages), "thanks");
});

test("an interrupt that is cancelled", async () => {
  const agent = start("demo");
  agent.addMessage(user("/ask Which page?", "/say as you like"));
  const seen = await run(agent);
  const next = await run(agent, { resume: [{ interruptId: seen.finished.interrupts[0].id, status: "cancelled" }] });
  assert.equal(text(next.newMessages), "as you like");
});

test("a plan and an event of the application", async () => {
  const agent = start("demo");
  agent.addMessage(user("/plan one; two", "/plan-done 1", '/custom example.chart {"points":[1,2]}', "/say done"));
  const seen = await run(agent);
  assert.equal(seen.failed, undefined);
  const plan = agent.messages.find((m) => m.role === "activity" && m.activityType === "PLAN");
  assert.equal(plan?.content.steps.length, 2, JSON.stringify(types(seen)));
  const custom = seen.events.find((e) => e.type === "CUSTOM" && e.name === "example.chart");
  assert.deepEqual(custom?.value, { points: [1, 2] });
});

test("an error", async () => {
  const agent = start("demo");
  agent.addMessage(user("/say before", "/fail agent_error retryable"));
  const seen = await run(agent);
  assert.equal(seen.error?.code, "agent_error");
  assert.equal(seen.error.metadata.retryable, true);
  assert.ok(seen.error.message);
});

test("errors before the stream", async () => {
  const nowhere = start("missing");
  nowhere.addMessage(user("hi"));
  const seen = await run(nowhere);
  assert.equal(seen.failed?.status, 404);
  assert.equal(seen.failed.payload.type, "RUN_ERROR");
  assert.equal(seen.failed.payload.code, "agent_not_found");
  const wrong = start("demo", { threadId: "not a thread" });
  wrong.addMessage(user("hi"));
  assert.equal((await run(wrong)).failed?.payload.code, "invalid_message_format");
});

test("cancel ends the run", async () => {
  const agent = start("demo");
  agent.addMessage(user("/stream 100000 20"));
  const runId = randomUUID();
  let cancelled;
  agent.subscribe({
    onTextMessageContentEvent: () => {
      cancelled ??= fetch(`${agui("demo", other)}/cancel`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ threadId: agent.threadId, runId }),
      });
    },
  });
  const seen = await run(agent, { runId });
  assert.equal((await cancelled).status, 202);
  assert.equal(seen.finished?.outcome, "cancelled");
});

test("a client that leaves does not end the run", async () => {
  const agent = start("demo");
  agent.addMessage(user("/stream 40 20", "/say the end"));
  agent.subscribe({ onTextMessageContentEvent: () => agent.abortRun() });
  await run(agent);
  const reader = start("demo", { threadId: agent.threadId });
  const seen = await run(reader, {}, "connectAgent");
  assert.equal(seen.finished?.outcome, "success");
  assert.match(text(reader.messages), /the end$/);
});

test("a cut connection, and connect on another gateway", async () => {
  const proxy = await cutter(base, 4000);
  const agent = start("demo");
  agent.url = agui("demo", proxy.url);
  agent.addMessage(user("/think some thoughts", "/stream 60 40", '/tool echo {"text":"x"}', "/say the end"));
  const runId = randomUUID();
  const cut = await run(agent, { runId });
  proxy.close();
  assert.ok(cut.failed, "the client must see that the connection was cut");
  assert.equal(cut.finished, undefined);
  agent.url = agui("demo", other);
  const seen = await run(agent, { runId }, "connectAgent");
  assert.equal(seen.failed, undefined);
  assert.equal(seen.finished?.outcome, "success");
  assert.deepEqual(types(seen).slice(0, 2), ["RUN_STARTED", "MESSAGES_SNAPSHOT"]);

  // What it has is what a client has that reads the finished run.
  const late = start("demo", { threadId: agent.threadId });
  await run(late, { runId }, "connectAgent");
  const shape = (messages) => messages.map(({ role, content, toolCalls }) => ({ role, content, toolCalls }));
  assert.deepEqual(shape(agent.messages), shape(late.messages));
  assert.deepEqual(late.messages.map((m) => m.role), ["user", "reasoning", "assistant", "assistant", "tool", "assistant"]);
  const numbers = late.messages[2].content.match(/\d+/g).map(Number);
  assert.deepEqual(numbers, Array.from({ length: 60 }, (_, i) => i));
  assert.equal(late.messages.at(-1).content, "the end");

  assert.equal(agent.messages[0].id, late.messages[0].id);

  // The thread can be continued.
  agent.addMessage(user("/say and on"));
  assert.equal(text((await run(agent)).newMessages), "and on");
});

test("connect at an exact position", async () => {
  const threadId = randomUUID();
  const body = JSON.stringify({ threadId, runId: "r1", messages: [user("/stream 20 0", "/say the end")], tools: [], context: [] });
  const headers = { "Content-Type": "application/json" };
  const read = async (response) => {
    assert.equal(response.status, 200);
    const blocks = (await response.text()).split("\n\n").filter((b) => b.includes("data: "));
    return blocks.map((b) => ({
      id: /^id: (.*)$/m.exec(b)?.[1],
      event: JSON.parse(/^data: (.*)$/m.exec(b)[1]),
    }));
  };
  const whole = await read(await fetch(agui("demo"), { method: "POST", headers, body }));
  for (const at of [3, 10, whole.length - 4]) {
    let from = at;
    while (!whole[from].id) from++;
    const rest = await read(
      await fetch(`${agui("demo", other)}/connect`, { method: "POST", headers: { ...headers, "Last-Event-ID": whole[from].id }, body }),
    );
    const wanted = whole.slice(from + 1);
    assert.deepEqual(rest.slice(-wanted.length), wanted, `after ${whole[from].id}`);
    const before = rest.slice(0, -wanted.length).map(({ event }) => event.type);
    assert.deepEqual(before.slice(0, 2), ["RUN_STARTED", "MESSAGES_SNAPSHOT"]);
    assert.ok(before.slice(2).every((type) => type.endsWith("_START")), before.join());
  }
});

test("a page that is loaded again finds the open interrupt", async () => {
  const agent = start("demo");
  agent.addMessage(user('/approve echo {"text":"careful"}', "/say after"));
  await run(agent);
  const again = start("demo", { threadId: agent.threadId });
  const seen = await run(again, {}, "connectAgent");
  assert.equal(seen.finished?.outcome, "interrupt");
  assert.equal(again.messages[0].role, "user");
  const next = await run(again, {
    resume: again.pendingInterrupts.map((i) => ({ interruptId: i.id, status: "resolved", payload: { approved: true } })),
  });
  assert.equal(text(next.newMessages), "after");
});

test("an interrupt that has expired can only be cancelled", async () => {
  const agent = start("forgetful");
  agent.addMessage(user('/approve echo {"text":"careful"}', "/say after"));
  const [{ id: interruptId, expiresAt }] = (await run(agent)).finished.interrupts;
  while (Date.now() < Date.parse(expiresAt) + 50) await new Promise((later) => setTimeout(later, 10));
  agent.addMessage(user("/say something else"));
  const seen = await run(agent, { resume: [{ interruptId, status: "cancelled" }] });
  assert.equal(seen.failed, undefined);
  assert.equal(text(seen.newMessages), "something else");
});

test("an agent that is called", async () => {
  const agent = start("lead");
  const task = ["/think deep", "/say inner", '/tool calculator {"expression":"6*7"}'].join("\n");
  agent.addMessage(user(`/tool agent__helper ${JSON.stringify({ task })}`, "/say outer"));
  const seen = await run(agent);
  assert.equal(seen.failed, undefined);
  const begun = seen.events.find((e) => e.type === "SUBAGENT_STARTED");
  assert.equal(begun.name, "helper");
  assert.equal(begun.parentToolCallId, seen.newMessages[0].toolCalls[0].id);
  const ended = seen.events.find((e) => e.type === "SUBAGENT_FINISHED");
  assert.deepEqual([ended.subagentRunId, ended.outcome.type], [begun.subagentRunId, "success"]);
  const below = seen.newMessages.filter((m) => m.subagentRunId === begun.subagentRunId);
  assert.deepEqual(below.map((m) => m.role), ["reasoning", "assistant", "assistant", "tool"]);
  assert.equal(seen.newMessages.at(-1).content, "outer");
  agent.addMessage(user("/say next"));
  assert.equal(text((await run(agent)).newMessages), "next");
});

test("an approval that an agent that is called needs", async () => {
  const agent = start("lead");
  const task = ['/approve echo {"text":"careful"}', "/say inner"].join("\n");
  agent.addMessage(user(`/tool agent__helper ${JSON.stringify({ task })}`, "/say outer"));
  const seen = await run(agent);
  const [interrupt] = seen.finished.interrupts;
  assert.equal(interrupt.metadata.agentId, "helper");
  const next = await run(agent, { resume: [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }] });
  assert.equal(next.failed, undefined);
  assert.match(text(next.newMessages), /outer$/);
});

test("a tool that the run declares", async () => {
  const agent = start("demo");
  const parameters = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  agent.addMessage(user('/tool pick_color {"name":"wall"}', "/say painted"));
  const seen = await run(agent, { tools: [{ name: "pick_color", description: "Asks for a color.", parameters }] });
  const call = seen.newMessages.at(-1).toolCalls[0];
  assert.deepEqual(seen.finished.pendingToolCallIds, [call.id]);
  agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: "blue" });
  const next = await run(agent);
  assert.equal(text(next.newMessages), "painted");
  assert.equal(agent.messages.filter((m) => m.role === "tool").length, 1, "the client has the result already");
});

test("a conversation from elsewhere", async () => {
  const agent = start("demo", {
    initialMessages: [user("where is Turin?"), { id: randomUUID(), role: "assistant", content: "In Italy." }, user("/say and Milan too")],
  });
  const seen = await run(agent);
  assert.equal(text(seen.newMessages), "and Milan too");
  const late = start("demo", { threadId: agent.threadId });
  await run(late, {}, "connectAgent");
  assert.deepEqual(late.messages.map(({ id, content }) => ({ id, content })), agent.messages.map(({ id, content }) => ({ id, content })));
});

test("a message that was sent before is not sent twice", async () => {
  const agent = start("demo");
  agent.addMessage(user("/fail agent_error"));
  await run(agent);
  agent.addMessage(user("/say second"));
  assert.equal(text((await run(agent)).newMessages), "second");
  const stored = await (await fetch(`${base}/v1/threads/${agent.threadId}/messages`)).json();
  assert.equal(stored.messages.filter((m) => m.role === "user").length, 2, JSON.stringify(stored));
});

test("a client of another protocol approves", async () => {
  const agent = start("demo");
  agent.addMessage(user('/approve echo {"text":"careful"}', "/say after"));
  const { interrupts } = (await run(agent)).finished;
  const approved = await fetch(`${other}/v1/agents/demo/requests`, {
    method: "POST",
    body: JSON.stringify({
      threadId: agent.threadId,
      messages: [],
      context: { actionResults: [{ actionId: interrupts[0].id.replace("approval:", ""), status: "success" }] },
    }),
  });
  assert.equal(approved.status, 202);
  const reader = start("demo", { threadId: agent.threadId });
  const seen = await run(reader, {}, "connectAgent");
  assert.equal(seen.finished?.outcome, "success");
  assert.equal(reader.messages.at(-1).content, "after");
  const late = await run(agent, { resume: [{ interruptId: interrupts[0].id, status: "resolved", payload: { approved: true } }] });
  assert.equal(late.failed?.payload.code, "invalid_action_id");
});

test("cancel names the run", async () => {
  const agent = start("demo");
  agent.addMessage(user("/say done"));
  await run(agent, { runId: "first" });
  const cancel = (runId) =>
    fetch(`${agui("demo")}/cancel`, { method: "POST", body: JSON.stringify({ threadId: agent.threadId, runId }) });
  assert.equal((await cancel("first")).status, 409);
  assert.equal((await cancel("another")).status, 404);
});

test("what the agent can do", async () => {
  const about = await (await fetch(`${agui("demo")}/info`)).json();
  assert.equal(about.identity.name, "demo");
  assert.equal(about.transport.streaming, true);
});
