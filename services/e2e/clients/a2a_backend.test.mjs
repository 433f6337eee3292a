// The backend a2a, with an agent on the server of the published SDK, and with the gateway itself as the agent by HTTP+JSON.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Artifact, Message, Role, Task, TaskState, TaskStatus } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, JsonRpcTransportHandler, ServerCallContext, UnauthenticatedUser } from "@a2a-js/sdk/server";
import { Readable } from "node:stream";
import { test } from "./harness.mjs";
import { abort, actions, answers, results, run, serve, text } from "./upstream.mjs";

const gateway = process.env.AGENTBUS_URLS.split(",")[0];
const upstream = process.env.AGENTBUS_UPSTREAM;
const calls = []; // of all methods
const cancelled = []; // tasks
const resumed = new Map(); // what continues a task, by its id

const part = (value) => ({ text: value });
const says = (value) => value.parts.map((p) => p.content.value).join("|");

const executor = {
  async execute({ userMessage, taskId, contextId, task }, bus) {
    const status = (state, message, metadata) => bus.publish(AgentEvent.statusUpdate({
      taskId, contextId, metadata, status: TaskStatus.fromJSON({
        state, timestamp: new Date().toISOString(),
        message: message && Message.toJSON(Message.fromJSON({ messageId: randomUUID(), role: "ROLE_AGENT", taskId, contextId, parts: [part(message)] })),
      }),
    }));
    const output = (artifactId, value, append = false) => bus.publish(AgentEvent.artifactUpdate({
      taskId, contextId, append, lastChunk: false, metadata: undefined, artifact: Artifact.fromJSON({ artifactId, parts: [part(value)] }),
    }));
    const done = () => { status("TASK_STATE_COMPLETED", undefined, { usage: { inputTokens: 10, outputTokens: 4 } }); bus.finished(); };
    const said = says(userMessage);
    if (said === "bare") {
      bus.publish(AgentEvent.message(Message.fromJSON({ messageId: randomUUID(), role: "ROLE_AGENT", contextId, parts: [part("no task")] })));
      return bus.finished();
    }
    bus.publish(AgentEvent.task(task ?? Task.fromJSON({ id: taskId, contextId, status: { state: "TASK_STATE_SUBMITTED" } })));
    status("TASK_STATE_WORKING", task && "thank you");
    if (task !== undefined) {
      output("second", `answered ${said}`);
      return done();
    }
    switch (said) {
      case "everything":
        status("TASK_STATE_WORKING", "I look");
        output("first", "all ");
        output("first", "done", true);
        return done();
      case "ask":
        output("first", "before");
        return status("TASK_STATE_INPUT_REQUIRED", "Which city?");
      case "slow":
        output("first", "begun");
        return new Promise((resolve) => { resumed.set(taskId, resolve); });
      case "cut":
        output("first", "half");
        return new Promise((resolve) => {
          resumed.set(taskId, () => { output("first", " and whole", true); done(); resolve(); });
        });
      case "fail":
        status("TASK_STATE_FAILED", "no such customer");
        return bus.finished();
      default:
        output("first", `${contextId}: ${said}`);
        return done();
    }
  },
  async cancelTask(taskId, bus) {
    cancelled.push(taskId);
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId: "", metadata: undefined, status: { state: TaskState.TASK_STATE_CANCELED, message: undefined, timestamp: undefined } }));
    resumed.get(taskId)?.();
    bus.finished();
  },
};

const card = {
  name: "test", description: "test", version: "1", capabilities: { streaming: true }, defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"], skills: [],
  supportedInterfaces: [{ url: `http://${upstream}/a2a/rpc`, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
};
const handler = new JsonRpcTransportHandler(new DefaultRequestHandler(card, new InMemoryTaskStore(), executor));

// a2a is the agent. A task that is to be cut continues when its client has subscribed.
async function a2a({ req, res, body, url }) {
  if (url.pathname === "/a2a/.well-known/agent-card.json") return res.end(JSON.stringify(card));
  calls.push(body);
  const context = new ServerCallContext({ user: new UnauthenticatedUser(), requestedVersion: req.headers["a2a-version"] });
  const answer = await handler.handle(body, context);
  if (answer[Symbol.asyncIterator] === undefined) {
    res.writeHead(200, { "Content-Type": "application/json" });
    return res.end(JSON.stringify(answer));
  }
  res.writeHead(200, { "Content-Type": "text/event-stream" });
  for await (const event of answer) {
    res.write(`data: ${JSON.stringify(event)}\n\n`);
    const half = event.result?.artifactUpdate?.artifact.parts[0].text === "half";
    if (half && body.method === "SendStreamingMessage") return setImmediate(() => res.destroy());
    if (body.method === "SubscribeToTask") resumed.get(body.params.id)?.();
  }
  return res.end();
}

// mirror is the gateway under test, by HTTP+JSON.
async function mirror({ req, res, body, url }) {
  const path = url.pathname.slice("/mirror".length);
  if (path.endsWith("agent-card.json")) {
    const own = await (await fetch(`${gateway}/a2a/demo${path}`)).json();
    own.supportedInterfaces = [{ ...own.supportedInterfaces[1], url: `http://${upstream}/mirror` }];
    return res.end(JSON.stringify(own));
  }
  const { status, headers, body: stream } = await fetch(`${gateway}/a2a/demo${path}`, {
    method: req.method, headers: { "A2A-Version": req.headers["a2a-version"] }, body: body && JSON.stringify(body),
  });
  res.writeHead(status, { "Content-Type": headers.get("content-type") });
  return Readable.fromWeb(stream).on("error", () => res.destroy()).pipe(res);
}

await serve({ "/a2a": a2a, "/mirror": mirror });

test("artifacts, status messages and usage are shown", async () => {
  const events = await run("a2a", "everything");
  assert.equal(text(events), "all done");
  assert.equal(events.find((e) => e.event === "thinking" && e.stage === "stop").thinking, "I look");
  const { usage, finishReason } = events.at(-1);
  assert.deepEqual([usage.inputTokens, usage.outputTokens, finishReason], [10, 4, "stop"]);
});

test("a message without a task is the answer", async () => {
  assert.equal(text(await run("a2a", "bare")), "no task");
});

test("a thread is a context, which gets the new messages alone", async () => {
  const first = await run("a2a", "one");
  const second = await run("a2a", "two", { threadId: first[0].threadId });
  const [context] = text(first).split(": ");
  assert.equal(text(second), `${context}: two`);
});

test("a question is an action, and its answer continues the task", async () => {
  const asked = await run("a2a", "ask");
  assert.equal(asked.at(-1).finishReason, "action_required");
  assert.deepEqual(actions(asked).map((a) => [a.kind, a.payload.question]), [["input", "Which city?"]]);
  const resumed = await run("a2a", undefined, answers(asked, { status: "success", result: "Oslo" }));
  assert.equal(text(resumed), "answered Oslo");
  assert.equal(resumed.at(-1).event, "done");
});

test("an abort cancels the task", async () => {
  const events = await run("a2a", "slow", {}, async (e) => {
    if (e.event === "text" && e.stage === "start") await abort(e.requestId);
  });
  assert.equal(events.at(-1).event, "aborted");
  while (cancelled.length === 0) await new Promise((resolve) => { setTimeout(resolve, 10); });
});

test("a task that is cut is subscribed to, with onCrash: error too", async () => {
  for (const agent of ["a2a", "a2a_once"]) {
    const before = calls.length;
    const events = await run(agent, "cut");
    assert.equal(text(events), "half and whole");
    assert.equal(events.at(-1).event, "done");
    assert.deepEqual(calls.slice(before).map((c) => c.method), ["SendStreamingMessage", "SubscribeToTask"]);
  }
});

test("a failure of the task is an error of the request", async () => {
  const { event, message, retryable } = (await run("a2a", "fail")).at(-1);
  assert.deepEqual([event, retryable], ["error", false]);
  assert.match(message, /no such customer/);
});

test("agentbus runs agentbus", async () => {
  const first = await run("a2a_mirror", '/think hm\n/tool calculator {"expression":"6*7"}\n/say it is 42');
  assert.equal(text(first), "it is 42");
  assert.equal(results(first)[0][0], "success");
  const second = await run("a2a_mirror", "/say again", { threadId: first[0].threadId });
  assert.equal(text(second), "again");
  const asked = await run("a2a_mirror", '/approve calculator {"expression":"2+2"}\n/ask Which city?\n/say done', { threadId: first[0].threadId });
  assert.deepEqual(actions(asked).map((a) => [a.kind, a.payload.name]), [["approval", "calculator"]]);
  const allowed = await run("a2a_mirror", undefined, answers(asked, { status: "success" }));
  assert.equal(actions(allowed)[0].payload.question, "Which city?");
  const answered = await run("a2a_mirror", undefined, answers(allowed, { status: "success", result: "Oslo" }));
  assert.equal(text(answered), "done");
});
