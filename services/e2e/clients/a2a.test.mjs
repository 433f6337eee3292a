// A2A, tested with the published SDK: @a2a-js/sdk must work unmodified, by both bindings.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import http from "node:http";
import net from "node:net";
import { Role, StreamResponse, TaskState } from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";
import { test } from "./harness.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

const bindings = ["JSONRPC", "HTTP+JSON"];

async function connect(agent = "demo", binding = "JSONRPC", at = base) {
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [binding] });
  const client = await new ClientFactory(options).createFromUrl(`${at}/a2a/${agent}/`);
  assert.equal(client.transport.protocolName, binding);
  return client;
}

const textPart = (value) => ({ content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "" });
const dataPart = (value) => ({ content: { $case: "data", value }, metadata: undefined, filename: "", mediaType: "application/json" });

// send returns the parameters of a message.
function send(parts, { taskId = "", contextId = "", messageId = randomUUID(), ...configuration } = {}) {
  const message = {
    messageId, contextId, taskId, role: Role.ROLE_USER, extensions: [], referenceTaskIds: [], metadata: undefined,
    parts: (Array.isArray(parts) ? parts : [parts]).map((p) => (typeof p === "string" ? textPart(p) : p)),
  };
  return { tenant: "", message, metadata: undefined, configuration: { acceptedOutputModes: [], returnImmediately: false, ...configuration } };
}

const lines = (...all) => all.join("\n");
const partText = (p) => (p.content?.$case === "text" ? p.content.value : "");
const textOf = (task) => task.artifacts.map((a) => a.parts.map(partText).join("")).join("\n");
const dataOf = (message) => message.parts.filter((p) => p.content?.$case === "data").map((p) => p.content.value);
const byID = (id, more = {}) => ({ tenant: "", id, ...more });

// collect reads a stream as a client keeps a task.
async function collect(stream, seen = { kinds: [], states: [], artifacts: new Map(), progress: [] }, until = () => false) {
  for await (const { payload } of stream) {
    seen.kinds.push(payload.$case);
    if (payload.$case === "task") {
      seen.task = payload.value;
      for (const a of payload.value.artifacts) seen.artifacts.set(a.artifactId, a.parts.map(partText).join(""));
    } else if (payload.$case === "statusUpdate") {
      seen.status = payload.value.status;
      seen.metadata = payload.value.metadata?.agentbus;
      if (seen.states.at(-1) !== seen.status.state) seen.states.push(seen.status.state);
      if (seen.status.message?.metadata) seen.progress.push({ kind: seen.status.message.metadata.agentbus.kind, message: seen.status.message });
    } else if (payload.$case === "artifactUpdate") {
      const { artifact, append } = payload.value;
      const text = artifact.parts.map(partText).join("");
      seen.artifacts.set(artifact.artifactId, append ? seen.artifacts.get(artifact.artifactId) + text : text);
    }
    if (until(seen)) break;
  }
  seen.text = [...seen.artifacts.values()].join("\n");
  return seen;
}

const { TASK_STATE_SUBMITTED: submitted, TASK_STATE_WORKING: working, TASK_STATE_INPUT_REQUIRED: asked, TASK_STATE_COMPLETED: completed,
  TASK_STATE_FAILED: failed, TASK_STATE_CANCELED: canceled } = TaskState;

// eventually polls a task until it is in a state.
async function eventually(client, id, state) {
  for (const end = Date.now() + 20_000; ;) {
    const task = await client.getTask(byID(id));
    if (task.status.state === state) return task;
    assert.ok(Date.now() < end, `task ${id} is in state ${task.status.state}, want ${state}`);
    await new Promise((next) => setTimeout(next, 50));
  }
}

test("the card", async () => {
  const response = await fetch(`${base}/a2a/demo/.well-known/agent-card.json`);
  assert.equal(response.status, 200);
  const card = await response.json();
  assert.deepEqual(card.supportedInterfaces.map((i) => [i.url, i.protocolBinding, i.protocolVersion]), bindings.map((b) => [`${base}/a2a/demo`, b, "1.0"]));
  assert.equal(card.capabilities.streaming, true);
  const again = await fetch(`${base}/a2a/demo/.well-known/agent-card.json`, { headers: { "If-None-Match": response.headers.get("etag") } });
  assert.equal(again.status, 304);
  assert.equal((await fetch(`${base}/a2a/missing/.well-known/agent-card.json`)).status, 404);
});

for (const binding of bindings) {
  const named = (name, body) => test(`${name}, by ${binding}`, body);
  const open = (agent = "demo", at = base) => connect(agent, binding, at);

  named("a message", async () => {
    const client = await open();
    const messageId = randomUUID();
    const task = await client.sendMessage(send(lines("/think a product", '/tool calculator {"expression":"6*7"}', "/say it is 42"), { messageId }));
    assert.equal(task.status.state, completed);
    assert.equal(textOf(task), "it is 42");
    assert.ok(task.contextId);
    assert.equal(task.history[0].messageId, messageId);
    assert.ok(task.metadata.agentbus.usage.outputTokens > 0);
    assert.equal(task.metadata.agentbus.finishReason, "stop");
    assert.deepEqual(await client.getTask(byID(task.id)), task);
    assert.deepEqual(await (await open("demo", other)).getTask(byID(task.id, { historyLength: 0 })), { ...task, history: [] });
  });

  named("a stream", async () => {
    const client = await open();
    const seen = await collect(client.sendMessageStream(send(lines("/think a product", '/tool calculator {"expression":"6*7"}', "/stream 5 1", "/say it is 42"))));
    assert.equal(seen.kinds[0], "task");
    assert.equal(seen.task.status.state, submitted);
    assert.deepEqual(seen.states, [working, completed]);
    assert.match(seen.text, /it is 42$/);
    const kinds = seen.progress.map((p) => p.kind);
    assert.deepEqual(kinds, ["thinking", "tool_call", "tool_result"]);
    assert.equal(partText(seen.progress[0].message.parts[0]), "a product");
    assert.equal(dataOf(seen.progress[1].message)[0].tool, "calculator");
    assert.equal(dataOf(seen.progress[2].message)[0].summary, "6*7 = 42");
    assert.equal(textOf(await client.getTask(byID(seen.task.id))), seen.text);
  });

  named("a second turn in the context", async () => {
    const client = await open();
    const first = await client.sendMessage(send("/say first"));
    const second = await client.sendMessage(send("/say second", { contextId: first.contextId }));
    assert.equal(second.contextId, first.contextId);
    assert.notEqual(second.id, first.id);
    const stored = await (await fetch(`${base}/v1/threads/${first.contextId}/messages`)).json();
    assert.equal(stored.messages.filter((m) => m.role === "user").length, 2);
    const own = randomUUID();
    assert.equal((await client.sendMessage(send("/say third", { contextId: own }))).contextId, own);
    await assert.rejects(client.sendMessage(send("/say fourth", { taskId: first.id })), { name: /UnsupportedOperation/ });
  });

  for (const approved of [true, false]) {
    named(`an approval that is ${approved ? "given" : "denied"}`, async () => {
      const client = await open();
      const seen = await collect(client.sendMessageStream(send(lines('/approve echo {"text":"careful"}', "/say after"))));
      assert.deepEqual(seen.states, [working, asked]);
      const [question] = dataOf(seen.status.message);
      assert.equal(question.tool, "echo");
      assert.deepEqual(question.arguments, { text: "careful" });
      const answer = send(dataPart({ actionId: question.actionId, approved }), { taskId: seen.task.id, contextId: seen.task.contextId });
      const next = await collect(client.sendMessageStream(answer));
      assert.equal(next.task.id, seen.task.id);
      assert.deepEqual(next.states, [working, completed]);
      assert.equal(dataOf(next.progress.find((p) => p.kind === "tool_result").message)[0].status, approved ? "success" : "denied");
      assert.equal(next.text, "after");
      const task = await client.getTask(byID(seen.task.id));
      assert.equal(task.metadata.agentbus.requestIds.length, 2);
      assert.equal((await client.sendMessage(answer)).status.state, completed, "the same answer again changes nothing");
    });
  }

  named("a question, answered in text", async () => {
    const client = await open();
    const first = await client.sendMessage(send(lines("/ask Which page?", "/say thanks")));
    assert.equal(first.status.state, asked);
    assert.equal(partText(first.status.message.parts[0]), "Which page?");
    const second = await client.sendMessage(send("3", { taskId: first.id }));
    assert.equal(second.id, first.id);
    assert.equal(second.status.state, completed);
    assert.equal(textOf(second), "thanks");
    assert.equal(second.history.length, 3);
  });

  named("the tasks of a context", async () => {
    const client = await open();
    const first = await client.sendMessage(send("/say first"));
    const { contextId } = first;
    const second = await client.sendMessage(send(lines('/approve echo {"text":"careful"}', "/say after"), { contextId }));
    const third = await client.sendMessage(send("approve", { taskId: second.id }));
    const fourth = await client.sendMessage(send("/ask Which page?", { contextId }));
    const list = (more = {}) => client.listTasks({ tenant: "", contextId, status: 0, pageToken: "", statusTimestampAfter: undefined, ...more });
    const all = await list();
    assert.deepEqual(all.tasks.map((t) => [t.id, t.status.state]), [[fourth.id, asked], [third.id, completed], [first.id, completed]]);
    assert.deepEqual([all.totalSize, all.nextPageToken], [3, ""]);
    assert.deepEqual(all.tasks.map((t) => [t.artifacts.length, t.history.length]), [[0, 0], [0, 0], [0, 0]]);
    const page = await list({ pageSize: 1, status: completed, includeArtifacts: true, historyLength: 1 });
    assert.deepEqual([page.tasks[0].id, page.totalSize, page.tasks[0].history.length, textOf(page.tasks[0])], [third.id, 2, 1, "after"]);
    const next = await list({ pageSize: 1, status: completed, pageToken: page.nextPageToken });
    assert.deepEqual([next.tasks[0].id, next.nextPageToken], [first.id, ""]);
    assert.equal((await list({ contextId: randomUUID() })).totalSize, 0);
    await assert.rejects(list({ contextId: "" }), /contextId/);
  });

  named("a message without waiting, and polling", async () => {
    const client = await open("demo", other);
    const task = await client.sendMessage(send("/say later", { returnImmediately: true }));
    assert.equal(task.status.state, submitted);
    assert.equal(task.history.length, 1);
    assert.equal(textOf(await eventually(await open(), task.id, completed)), "later");
  });

  named("a message that is sent again is the same task", async () => {
    const client = await open();
    const message = send("/say once");
    const first = await client.sendMessage(message);
    assert.deepEqual(await (await open("demo", other)).sendMessage(message), first);
    const streamed = await collect(client.sendMessageStream(message));
    assert.deepEqual(streamed.kinds, ["task"]);
    assert.deepEqual(streamed.task, first);
    const changed = structuredClone(message);
    changed.message.parts[0].content.value = "/say twice";
    await assert.rejects(client.sendMessage(changed));
  });

  named("cancel", async () => {
    const client = await open();
    const stream = client.sendMessageStream(send("/stream 100000 20"));
    let done;
    const seen = await collect(stream, undefined, (s) => {
      if (s.kinds.length === 3) done = open("demo", other).then((c) => c.cancelTask(byID(s.task.id)));
      return false;
    });
    assert.equal(seen.states.at(-1), canceled);
    assert.equal((await done).status.state, canceled);
    await assert.rejects(client.cancelTask(byID(seen.task.id)), { name: /TaskNotCancelable/ });
  });

  named("cancel of a task that waits", async () => {
    const client = await open();
    const task = await client.sendMessage(send(lines('/approve echo {"text":"careful"}', "/say after")));
    const [question] = dataOf(task.status.message);
    let done;
    const seen = await collect((await open("demo", other)).resubscribeTask(byID(task.id)), undefined, () => {
      done ??= client.cancelTask(byID(task.id));
      return false;
    });
    await done;
    assert.equal(seen.states.at(-1), canceled);
    assert.equal((await client.getTask(byID(task.id))).status.state, canceled);
    const late = await fetch(`${base}/v1/agents/demo/requests`, {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ messages: [], threadId: task.contextId, context: { actionResults: [{ actionId: question.actionId, status: "success" }] } }),
    });
    assert.equal(late.status, 400);
  });

  named("a socket that is cut, and the rest on another gateway", async () => {
    const wire = await cutting(base, 6_000);
    const client = await connect("demo", binding);
    client.transport.endpoint = `${wire.url}/a2a/demo`;
    const seen = { kinds: [], states: [], artifacts: new Map(), progress: [] };
    const script = lines("/stream 60 5", '/approve echo {"text":"careful"}', "/say the end");
    await assert.rejects(collect(client.sendMessageStream(send(script)), seen));
    wire.close();
    assert.ok(seen.artifacts.size > 0 && !seen.states.includes(asked));
    const again = await open("demo", other);
    let answered; // the task waits for an approval, so that it does not end before the subscription
    const rest = await collect(again.resubscribeTask(byID(seen.task.id)), undefined, (s) => {
      if (asked === (s.status ?? s.task.status).state) answered ??= again.sendMessage(send("approve", { taskId: seen.task.id }));
      return false;
    });
    assert.equal((await answered).status.state, completed);
    assert.equal(rest.kinds[0], "task");
    assert.equal(rest.kinds.filter((kind) => kind === "task").length, 1);
    assert.equal(rest.states.at(-1), completed);
    assert.match(rest.text, /the end$/);
    assert.equal(rest.text, textOf(await again.getTask(byID(seen.task.id))));
    await assert.rejects(collect(again.resubscribeTask(byID(seen.task.id))), { name: /UnsupportedOperation/ });
  });

  named("an approval by a native client while a stream is open", async () => {
    const client = await open();
    const task = await client.sendMessage(send(lines('/approve echo {"text":"careful"}', "/say after")));
    const [question] = dataOf(task.status.message);
    let answered;
    const seen = await collect((await open("demo", other)).resubscribeTask(byID(task.id)), undefined, (s) => {
      answered ??= fetch(`${base}/v1/agents/demo/requests`, {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ messages: [], threadId: s.task.contextId, context: { actionResults: [{ actionId: question.actionId, status: "success" }] } }),
      });
      return false;
    });
    assert.equal((await answered).status, 202);
    assert.equal(seen.task.status.state, asked);
    assert.deepEqual(seen.states, [working, completed]);
    assert.equal(seen.text, "after");
  });

  named("a slow reader gets all of it", async () => {
    const client = await open();
    const seen = { kinds: [], states: [], artifacts: new Map(), progress: [] };
    const slow = async function* (stream) {
      for await (const one of stream) {
        if (seen.kinds.length % 50 === 0) await new Promise((next) => setTimeout(next, 20));
        yield one;
      }
    };
    await collect(slow(client.sendMessageStream(send(lines("/stream 2000 0", "/say the end")))), seen);
    assert.equal(seen.states.at(-1), completed);
    assert.equal(seen.text, textOf(await client.getTask(byID(seen.task.id))));
  });

  named("a message to a task that runs", async () => {
    const client = await open();
    const task = await client.sendMessage(send("/stream 100000 20", { returnImmediately: true }));
    await eventually(client, task.id, working);
    const steer = randomUUID();
    const running = await client.sendMessage(send("and hurry", { taskId: task.id, messageId: steer, returnImmediately: true }));
    assert.equal(running.id, task.id);
    await client.cancelTask(byID(task.id));
  });

  named("a failure", async () => {
    const client = await open();
    const task = await client.sendMessage(send(lines("/say before", "/fail agent_error")));
    assert.equal(task.status.state, failed);
    assert.equal(task.metadata.agentbus.code, "agent_error");
    const seen = await collect(client.sendMessageStream(send(lines("/say before", "/fail agent_error"))));
    assert.equal(seen.states.at(-1), failed);
  });

  named("errors", async () => {
    const client = await open();
    await assert.rejects(client.getTask(byID("req_none")), { name: /TaskNotFound/ });
    await assert.rejects(client.cancelTask(byID("req_none")), { name: /TaskNotFound/ });
    await assert.rejects(collect(client.resubscribeTask(byID("req_none"))), { name: /TaskNotFound/ });
    await assert.rejects(client.sendMessage(send("hi", { taskId: "req_none" })), { name: /TaskNotFound/ });
    await assert.rejects(client.sendMessage(send("hi", { contextId: "not an id" })), /contextId/);
    await assert.rejects(client.sendMessage(send([])), /parts/);
    const elsewhere = await client.sendMessage(send("/say hi"));
    await assert.rejects((await open("helper")).getTask(byID(elsewhere.id)), { name: /TaskNotFound/ });
  });

  named("files and data", async () => {
    const client = await open();
    const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
    const raw = { content: { $case: "raw", value: png }, metadata: undefined, filename: "dot.png", mediaType: "image/png" };
    const task = await client.sendMessage(send(["/say seen", raw, dataPart({ page: 3 })]));
    const [text, image, data] = task.history[0].parts;
    assert.equal(partText(text), "/say seen");
    assert.equal(image.filename, "dot.png");
    assert.deepEqual(JSON.parse(partText(data)), { page: 3 });
  });

  named("the extended card", async () => {
    const card = await (await open()).getAgentCard();
    assert.equal(card.name, "demo");
    assert.ok(card.skills.length > 1);
  });
}

test("a version that is not supported", async () => {
  for (const headers of [{}, { "A2A-Version": "0.3" }, { "A2A-Version": "2.0" }]) {
    const rpc = await fetch(`${base}/a2a/demo`, { method: "POST", headers, body: '{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t"}}' });
    const { id, error } = await rpc.json();
    assert.deepEqual([rpc.status, id, error.code, error.data[0].reason], [200, 7, -32009, "VERSION_NOT_SUPPORTED"]);
    const rest = await fetch(`${base}/a2a/demo/tasks/t`, { headers });
    const body = await rest.json();
    assert.deepEqual([rest.status, body.error.code, body.error.status, body.error.details[0].reason], [400, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"]);
  }
});

test("errors of JSON-RPC", async () => {
  const call = async (body) => (await (await fetch(`${base}/a2a/demo`, { method: "POST", headers: { "A2A-Version": "1.0" }, body })).json());
  for (const [body, code, id] of [
    ["{", -32700, null], ["[]", -32600, null], ['{"jsonrpc":"2.0","id":1,"method":"message/send"}', -32601, 1],
    ['{"jsonrpc":"1.0","id":"a","method":"GetTask"}', -32600, "a"], ['{"jsonrpc":"2.0","id":2,"method":"GetTask","params":{}}', -32602, 2],
    ['{"jsonrpc":"2.0","method":"GetTask","params":{}}', -32600, null],
  ]) {
    const answer = await call(body);
    assert.deepEqual([answer.error?.code, answer.id], [code, id], body);
    assert.equal(answer.error.data[0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
  }
});

// notified serves the receiver of push notifications while body runs.
async function notified(body) {
  const [host, port] = process.env.AGENTBUS_RECEIVER.split(":");
  const all = [];
  const server = http.createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      all.push({ headers: request.headers, payload: StreamResponse.fromJSON(JSON.parse(Buffer.concat(chunks))).payload });
      response.end();
    });
  });
  await new Promise((listening) => server.listen(Number(port), host, listening));
  const arrived = async (id, state) => {
    for (const end = Date.now() + 30_000; ;) {
      const found = all.find(({ payload }) => payload.value.id === id && payload.value.status.state === state);
      if (found) return found;
      assert.ok(Date.now() < end, `no notification of ${id} in state ${state}; got ${JSON.stringify(all)}`);
      await new Promise((next) => setTimeout(next, 50));
    }
  };
  try {
    await body(`http://${host}:${port}/hook`, arrived);
  } finally {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  }
}

for (const binding of bindings) {
  test(`push notifications (${binding})`, () => notified(async (url, arrived) => {
    const client = await connect("demo", binding);
    const config = { tenant: "", id: "", taskId: "", url, token: "t1", authentication: { scheme: "Bearer", credentials: "s3cret" } };
    const task = await client.sendMessage(send('/approve echo {"text":"hi"}\n/say done', { returnImmediately: true, taskPushNotificationConfig: config }));
    const first = await arrived(task.id, asked);
    assert.equal(first.payload.$case, "task");
    assert.equal(first.headers["x-a2a-notification-token"], "t1");
    assert.equal(first.headers.authorization, "Bearer s3cret");

    const added = await client.createTaskPushNotificationConfig({ ...config, id: "second", taskId: task.id });
    assert.deepEqual([added.id, added.taskId, added.url], ["second", task.id, url]);
    const { configs } = await client.listTaskPushNotificationConfig({ tenant: "", taskId: task.id, pageSize: 0, pageToken: "" });
    assert.deepEqual(configs.map((c) => c.id).sort(), [task.id, "second"].sort());
    const one = await client.getTaskPushNotificationConfig({ tenant: "", taskId: task.id, id: "second" });
    assert.deepEqual(one, added);
    await client.deleteTaskPushNotificationConfig({ tenant: "", taskId: task.id, id: "second" });
    await assert.rejects(client.getTaskPushNotificationConfig({ tenant: "", taskId: task.id, id: "second" }));

    await client.sendMessage(send("approve", { taskId: task.id }));
    const last = await arrived(task.id, completed);
    assert.equal(textOf(last.payload.value), "done");
    assert.notEqual(last.headers["webhook-id"], first.headers["webhook-id"]);
    await assert.rejects(client.createTaskPushNotificationConfig({ ...config, taskId: task.id }));
  }));
}

// cutting is a proxy that cuts a connection after so many bytes of its response.
async function cutting(target, bytes) {
  const { hostname, port } = new URL(target);
  const server = net.createServer((client) => {
    const upstream = net.connect(port, hostname);
    let left = bytes;
    upstream.on("data", (chunk) => {
      client.write(chunk);
      if ((left -= chunk.length) <= 0) {
        client.resetAndDestroy();
        upstream.destroy();
      }
    });
    client.on("data", (chunk) => upstream.write(chunk));
    for (const [one, another] of [[client, upstream], [upstream, client]]) {
      one.on("error", () => another.destroy());
      one.on("close", () => another.destroy());
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
