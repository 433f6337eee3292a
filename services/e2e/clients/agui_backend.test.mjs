// The backend agui, with an agent that the published packages of AG-UI check and encode, and with the gateway itself as the agent.
import assert from "node:assert/strict";
import { EventType } from "@ag-ui/core";
import { EventSchemas, RunAgentInputSchema } from "@ag-ui/core/schemas";
import { EventEncoder } from "@ag-ui/encoder";
import { test } from "./harness.mjs";
import { abort, actions, answers, results, run, serve, text } from "./upstream.mjs";

const runs = []; // the inputs of all runs
const closed = []; // threads whose client left

// agui is the agent: what the user says decides what it does.
async function agui({ req, res, body }) {
  const input = RunAgentInputSchema.parse(body);
  runs.push(input);
  const encoder = new EventEncoder({ accept: req.headers.accept });
  const ids = { threadId: input.threadId, runId: input.runId };
  const send = (event) => res.write(encoder.encode(EventSchemas.parse(event)));
  const say = (messageId, ...words) => {
    send({ type: EventType.TEXT_MESSAGE_START, messageId, role: "assistant" });
    for (const delta of words) send({ type: EventType.TEXT_MESSAGE_CONTENT, messageId, delta });
    send({ type: EventType.TEXT_MESSAGE_END, messageId });
  };
  const call = (toolCallId, toolCallName, args) => {
    send({ type: EventType.TOOL_CALL_START, toolCallId, toolCallName });
    send({ type: EventType.TOOL_CALL_ARGS, toolCallId, delta: JSON.stringify(args) });
    send({ type: EventType.TOOL_CALL_END, toolCallId });
  };
  const usage = [{ provider: "test", model: "agui-model", inputTokens: 10, outputTokens: 4, totalTokens: 14 }];
  const finish = (outcome = { type: "success" }) => { send({ type: EventType.RUN_FINISHED, ...ids, outcome, usage }); res.end(); };
  const last = input.messages.at(-1);
  const said = input.messages.findLast((m) => m.role === "user").content;

  res.writeHead(200, { "Content-Type": encoder.getContentType() });
  res.on("close", () => closed.push(input.threadId));
  send({ type: EventType.RUN_STARTED, ...ids });
  if (input.resume) {
    for (const { payload, status } of input.resume.filter((r) => r.interruptId === "deploy")) {
      const content = status === "resolved" && payload.approved ? "deployed" : "not deployed";
      send({ type: EventType.TOOL_CALL_RESULT, messageId: "r1", toolCallId: "t1", content });
    }
    say("m2", JSON.stringify(input.resume.map((r) => r.payload ?? r.status)));
    return finish();
  }
  if (last.role === "tool") {
    say("m2", `the tool says ${last.content}`);
    return finish();
  }
  switch (said) {
    case "everything":
      send({ type: EventType.REASONING_MESSAGE_START, messageId: "h1", role: "reasoning" });
      send({ type: EventType.REASONING_MESSAGE_CONTENT, messageId: "h1", delta: "hm" });
      send({ type: EventType.REASONING_MESSAGE_END, messageId: "h1" });
      call("t1", "read_file", { path: "a" });
      send({ type: EventType.TOOL_CALL_RESULT, messageId: "r1", toolCallId: "t1", content: "the text" });
      send({ type: EventType.STATE_SNAPSHOT, snapshot: { n: 1 } });
      send({ type: EventType.CUSTOM, name: "shop.cart", value: { items: 2 } });
      say("m1", "all ", "done");
      return finish();
    case "deploy":
      call("t1", "deploy", { to: "prod" });
      return finish({ type: "interrupt", interrupts: [
        { id: "deploy", reason: "tool_approval", toolCallId: "t1", responseSchema: { type: "object", properties: { approved: { type: "boolean" } }, required: ["approved"] } },
        { id: "when", reason: "input_required", message: "When?", responseSchema: { type: "object", properties: { answer: { type: "string" } }, required: ["answer"] } },
      ] });
    case "locate":
      call("t1", "get_location", {});
      return finish({ type: "success", pendingToolCallIds: ["t1"] });
    case "slow":
      call("t1", "wait", {});
      say("m1", "begun");
      return undefined; // the connection stays open
    case "cut":
      send({ type: EventType.TEXT_MESSAGE_START, messageId: "m1", role: "assistant" });
      send({ type: EventType.TEXT_MESSAGE_CONTENT, messageId: "m1", delta: "half" });
      if (runs.filter((r) => r.threadId === input.threadId).length > 1) {
        send({ type: EventType.TEXT_MESSAGE_CONTENT, messageId: "m1", delta: " and whole" });
        send({ type: EventType.TEXT_MESSAGE_END, messageId: "m1" });
        return finish();
      }
      return setTimeout(() => res.destroy(), 50);
    case "fail":
      send({ type: EventType.RUN_ERROR, message: "no such customer", code: "gone" });
      return res.end();
    default:
      say("m1", input.messages.map((m) => `${m.role}:${m.content ?? ""}`).join(" "));
      return finish();
  }
}

await serve({ "/agui": agui });

test("text, reasoning, tools that run upstream, custom events and usage are shown", async () => {
  const events = await run("agui", "everything");
  assert.equal(text(events), "all done");
  assert.equal(events.find((e) => e.event === "thinking" && e.stage === "stop").thinking, "hm");
  const call = events.find((e) => e.event === "tool_call" && e.stage === "stop");
  assert.deepEqual([call.name, call.args, call.byAgent], ["read_file", { path: "a" }, true]);
  assert.deepEqual(results(events), [["success", "the text"]]);
  assert.deepEqual(events.filter((e) => e.event === "custom").map((e) => [e.type, e.data]), [
    ["agui.state", { snapshot: { n: 1 } }], ["shop.cart", { items: 2 }],
  ]);
  const { usage, finishReason } = events.at(-1);
  assert.deepEqual([usage.inputTokens, usage.outputTokens, finishReason], [10, 4, "stop"]);
});

test("the conversation goes back with the agent's ids", async () => {
  const first = await run("agui", "everything");
  const second = await run("agui", "again", { threadId: first[0].threadId });
  assert.equal(text(second), "user:everything reasoning:hm assistant: tool:the text assistant:all done user:again");
  const { messages, threadId } = runs.at(-1);
  assert.equal(threadId, runs.at(-2).threadId);
  assert.deepEqual(messages.slice(1, -1).map((m) => m.id), ["h1", "t1", "t1-result", "m1"]);
  assert.equal(messages[0].id, runs.at(-2).messages[0].id);
});

test("an agent that remembers gets the new messages alone", async () => {
  const first = await run("agui_new", "one");
  await run("agui_new", "two", { threadId: first[0].threadId });
  assert.deepEqual(runs.at(-1).messages.map((m) => m.content), ["two"]);
});

test("interrupts are actions, and their answers resume the run", async () => {
  for (const [given, want] of [
    [[{ status: "success" }, { status: "success", result: "now" }], '[{"approved":true},{"answer":"now"}]'],
    [[{ status: "denied" }, { status: "denied" }], '[{"approved":false,"reason":"the user denied this call"},"cancelled"]'],
  ]) {
    const asked = await run("agui", "deploy");
    assert.equal(asked.at(-1).finishReason, "action_required");
    assert.deepEqual(actions(asked).map((a) => [a.kind, a.payload.name, a.payload.question]), [
      ["approval", "deploy", undefined], ["input", "ask_user", "When?"],
    ]);
    const resumed = await run("agui", undefined, answers(asked, ...given));
    assert.equal(text(resumed), want);
    assert.deepEqual(results(resumed).at(-1), ["success", given[0].status === "success" ? "deployed" : "not deployed"]);
  }
});

test("a tool of the client, and one of agentbus, run where they are", async () => {
  const tools = [{ name: "get_location", description: "where", schema: { type: "object" } }];
  const asked = await run("agui", "locate", { tools });
  assert.deepEqual(actions(asked).map((a) => [a.kind, a.payload.name]), [["tool", "get_location"]]);
  const done = await run("agui", undefined, answers(asked, { status: "success", result: { city: "Oslo" } }));
  assert.equal(text(done), 'the tool says {"city":"Oslo"}');
});

test("an abort closes the connection, and the tool that runs is shown before", async () => {
  const events = await run("agui", "slow", {}, async (e) => {
    if (e.event === "text" && e.stage === "start") await abort(e.requestId);
  });
  assert.equal(events.at(-1).event, "aborted");
  assert.ok(events.some((e) => e.event === "tool_call" && e.name === "wait" && e.byAgent));
  while (!closed.includes(runs.at(-1).threadId)) await new Promise((resolve) => { setTimeout(resolve, 10); });
});

test("a run that is cut is sent again, or fails with onCrash: error", async () => {
  const again = await run("agui", "cut");
  assert.equal(text(again), "half and whole");
  assert.equal(again.at(-1).event, "done");
  const failed = await run("agui_once", "cut");
  assert.deepEqual([failed.at(-1).event, failed.at(-1).retryable], ["error", true]);
});

test("an error of the agent is an error of the request", async () => {
  const { event, message, retryable } = (await run("agui", "fail")).at(-1);
  assert.deepEqual([event, retryable], ["error", false]);
  assert.match(message, /no such customer/);
});

test("agentbus runs agentbus", async () => {
  const first = await run("agui_mirror", '/think hm\n/tool calculator {"expression":"6*7"}\n/say it is 42');
  assert.equal(text(first), "it is 42");
  assert.deepEqual(results(first), [["success", "6*7 = 42"]]);
  const second = await run("agui_mirror", "/say again", { threadId: first[0].threadId });
  assert.equal(text(second), "again");
  const asked = await run("agui_mirror", '/approve calculator {"expression":"2+2"}\n/ask Which city?\n/say done', { threadId: first[0].threadId });
  assert.equal(actions(asked)[0].kind, "approval");
  const allowed = await run("agui_mirror", undefined, answers(asked, { status: "success" }));
  assert.deepEqual(results(allowed).at(-1), ["success", "2+2 = 4"]);
  assert.equal(actions(allowed)[0].payload.question, "Which city?");
  const answered = await run("agui_mirror", undefined, answers(allowed, { status: "success", result: "Oslo" }));
  assert.equal(text(answered), "done");
});
