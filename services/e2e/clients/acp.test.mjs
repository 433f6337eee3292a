// ACP, tested with the published client: @agentclientprotocol/sdk drives `agentbus acp` as an editor does. Each line that the
// program writes is also checked against the schema of the protocol.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { PassThrough, Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import Ajv2020 from "ajv/dist/2020.js";
import { test } from "./harness.mjs";

const base = process.env.AGENTBUS_URLS.split(",")[0];
const program = process.env.AGENTBUS_PROGRAM;
const cwd = process.cwd();
const { agent: call } = acp.methods;

const ajv = new Ajv2020({ strict: false, validateFormats: false });
const schema = JSON.parse(readFileSync("node_modules/@agentclientprotocol/sdk/schema/v1/schema.json", "utf8"));
ajv.addSchema({ ...schema, anyOf: undefined, oneOf: undefined, $id: "acp" });
const definition = (name) => ajv.getSchema(`acp#/$defs/${name}`);
const results = {
  initialize: "InitializeResponse", "session/new": "NewSessionResponse", "session/load": "LoadSessionResponse",
  "session/resume": "ResumeSessionResponse", "session/list": "ListSessionsResponse", "session/prompt": "PromptResponse",
  "session/set_config_option": "SetSessionConfigOptionResponse", "session/close": "CloseSessionResponse",
  "session/delete": "DeleteSessionResponse", authenticate: "AuthenticateResponse",
};
const requests = {
  "session/update": "SessionNotification", "session/request_permission": "RequestPermissionRequest",
  "elicitation/create": "CreateElicitationRequest", "$/cancel_request": "CancelRequestNotification",
};

// check fails if a message of the program is not of the schema.
function check(message, sent) {
  const name = message.method ? requests[message.method] : message.error ? "Error" : results[sent.get(message.id)];
  if (!message.method && message.error && message.id === null) return;
  assert.ok(name, `unexpected message ${JSON.stringify(message)}`);
  const validate = definition(name);
  const value = message.method ? message.params : message.error ?? message.result;
  assert.ok(validate(value), `${name} ${JSON.stringify(value)}: ${JSON.stringify(validate.errors)}`);
}

// edit runs body as an editor with agentbus acp. What the program shows is in seen.
async function edit({ agent = "demo", env = {}, capabilities = {}, permit, answer }, body) {
  const child = spawn(program, ["acp", "--url", base, "--agent", agent], {
    stdio: ["pipe", "pipe", "pipe"], env: { ...process.env, AGENTBUS_KEY: "", ...env },
  });
  const seen = { updates: [], permissions: [], questions: [], invalid: [], stderr: "", sent: new Map() };
  child.stderr.on("data", (data) => (seen.stderr += data));
  const out = new PassThrough();
  lines(child.stdout, (line) => {
    try {
      check(JSON.parse(line), seen.sent);
    } catch (error) {
      seen.invalid.push(error.message);
    }
  }).pipe(out);
  const into = new PassThrough();
  lines(into, (line) => {
    const message = JSON.parse(line);
    if (message.method && message.id !== undefined) seen.sent.set(message.id, message.method);
  }).pipe(child.stdin);
  const closed = new Promise((resolve) => child.on("close", resolve));
  const app = acp.client({ name: "editor" })
    .onNotification("session/update", ({ params }) => void seen.updates.push(params.update))
    .onRequest("session/request_permission", ({ params }) => {
      seen.permissions.push(params);
      return permit(params);
    })
    .onRequest("elicitation/create", ({ params }) => {
      seen.questions.push(params);
      return answer(params);
    });
  try {
    await app.connectWith(acp.ndJsonStream(Writable.toWeb(into), Readable.toWeb(out)), async (cx) => {
      seen.initialized = await cx.request(call.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: capabilities, clientInfo: { name: "test", version: "1" },
      });
      await body(cx, seen);
    });
  } finally {
    child.stdin.end();
    seen.code = await closed;
  }
  assert.deepEqual(seen.invalid, []);
  assert.equal(seen.code, 0, seen.stderr);
  assert.equal(seen.stderr, "");
  return seen;
}

// lines passes a stream on and calls each with its lines.
function lines(stream, each) {
  let rest = "";
  stream.on("data", (data) => {
    const parts = (rest + data).split("\n");
    rest = parts.pop();
    parts.filter(Boolean).forEach(each);
  });
  return stream;
}

const begin = async (cx, parameters = {}) => (await cx.request(call.session.new, { cwd, mcpServers: [], ...parameters })).sessionId;
const say = (cx, sessionId, ...text) => cx.request(call.session.prompt, { sessionId, prompt: [{ type: "text", text: text.join("\n") }] });
const text = (seen, kind = "agent_message_chunk") =>
  seen.updates.filter((u) => u.sessionUpdate === kind).map((u) => u.content.text).join("");
const states = (seen) =>
  seen.updates.filter((u) => u.sessionUpdate.startsWith("tool_call")).map((u) => u.status).filter(Boolean);
const permission = (optionId) => () => ({ outcome: { outcome: "selected", optionId } });

async function until(condition, what) {
  for (let i = 0; i < 500; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail(`not within 10 s: ${what}`);
}

test("initialize answers with version 1 and what the agent can do", async () => {
  const seen = await edit({}, async () => {});
  assert.equal(seen.initialized.protocolVersion, 1);
  assert.equal(seen.initialized.agentCapabilities.loadSession, true);
  assert.deepEqual(Object.keys(seen.initialized.agentCapabilities.sessionCapabilities).sort(), ["close", "delete", "list", "resume"]);
  assert.equal(seen.initialized.agentInfo.name, "agentbus");
});

test("a prompt streams thoughts, a tool call, a plan and text", async () => {
  let stop;
  const seen = await edit({ agent: "planner" }, async (cx) => {
    const session = await begin(cx);
    ({ stopReason: stop } = await say(cx, session, "/think a product", "/plan multiply; say it",
      '/tool calculator {"expression":"6*7"}', "/plan-done 1", "/say it is 42"));
  });
  assert.equal(stop, "end_turn");
  assert.equal(text(seen, "agent_thought_chunk"), "a product");
  assert.equal(text(seen), "it is 42");
  assert.ok(seen.updates.filter((u) => u.sessionUpdate === "agent_message_chunk").length > 1, "the text came in one piece");
  assert.equal(states(seen).at(0), "pending");
  assert.equal(states(seen).at(-1), "completed");
  const { entries } = seen.updates.findLast((u) => u.sessionUpdate === "plan");
  assert.deepEqual(entries.map((e) => [e.content, e.status]), [["multiply", "completed"], ["say it", "in_progress"]]);
});

test("a session is loaded by another process, with each message once", async () => {
  let session;
  await edit({}, async (cx) => {
    session = await begin(cx);
    await say(cx, session, '/tool calculator {"expression":"6*7"}', "/say hello there");
  });
  const seen = await edit({}, async (cx, seen) => {
    await cx.request(call.session.load, { sessionId: session, cwd, mcpServers: [] });
    assert.equal(text(seen), "hello there");
    assert.match(text(seen, "user_message_chunk"), /\/say hello there/);
    assert.equal(states(seen).at(-1), "completed");
    seen.updates.length = 0;
    await say(cx, session, "/say again");
    const { sessions } = await cx.request(call.session.list, { cwd });
    assert.ok(sessions.some((s) => s.sessionId === session && s.cwd === cwd));
  });
  assert.equal(text(seen), "again");
  const resumed = await edit({}, async (cx, seen) => {
    await cx.request(call.session.resume, { sessionId: session, cwd, mcpServers: [] });
    assert.deepEqual(seen.updates, []);
    await say(cx, session, "/say resumed");
    await cx.request(call.session.delete, { sessionId: session });
    await assert.rejects(cx.request(call.session.load, { sessionId: session, cwd, mcpServers: [] }), { code: -32002 });
  });
  assert.equal(text(resumed), "resumed");
});

test("the user allows a call", async () => {
  const seen = await edit({ agent: "careful", permit: permission("allow") }, async (cx) => {
    const { stopReason } = await say(cx, await begin(cx), '/tool calculator {"expression":"6*7"}', "/say done");
    assert.equal(stopReason, "end_turn");
  });
  assert.equal(seen.permissions.length, 1);
  assert.deepEqual(seen.permissions[0].toolCall.rawInput, { expression: "6*7" });
  assert.equal(seen.permissions[0].toolCall.toolCallId, seen.updates.find((u) => u.sessionUpdate === "tool_call").toolCallId);
  assert.equal(states(seen).at(-1), "completed");
  assert.equal(text(seen), "done");
});

test("the user denies a call, which then does not stay open", async () => {
  const seen = await edit({ agent: "careful", permit: permission("deny") }, async (cx) => {
    await say(cx, await begin(cx), '/tool calculator {"expression":"6*7"}', "/say done");
  });
  assert.equal(states(seen).at(-1), "failed");
});

test("an editor that fails to ask denies", async () => {
  const permit = () => { throw new Error("no window"); };
  const seen = await edit({ agent: "careful", permit }, async (cx) => {
    await say(cx, await begin(cx), '/tool calculator {"expression":"6*7"}', "/say done");
  });
  assert.equal(states(seen).at(-1), "failed");
});

test("an approval that an editor has left open is asked again after the session is loaded", async () => {
  let session;
  await edit({ agent: "careful", permit: () => ({ outcome: { outcome: "cancelled" } }) }, async (cx) => {
    session = await begin(cx);
    const { stopReason } = await say(cx, session, '/tool calculator {"expression":"6*7"}', "/say done");
    assert.equal(stopReason, "cancelled");
  });
  const seen = await edit({ agent: "careful", permit: permission("allow") }, async (cx, seen) => {
    await cx.request(call.session.load, { sessionId: session, cwd, mcpServers: [] });
    assert.equal(states(seen).at(-1), "pending");
    await say(cx, session, "/say and this");
  });
  assert.equal(seen.permissions.length, 1);
  assert.equal(states(seen).at(-1), "completed");
});

test("a question is a form, or a message that the next prompt answers", async () => {
  const answer = () => ({ action: "accept", content: { answer: "Oslo" } });
  const asked = await edit({ agent: "careful", capabilities: { elicitation: { form: {} } }, answer }, async (cx) => {
    await say(cx, await begin(cx), "/ask Which city?", "/say done");
  });
  assert.equal(asked.questions[0].message, "Which city?");
  assert.equal(text(asked), "done");
  const posed = await edit({ agent: "careful" }, async (cx, seen) => {
    const session = await begin(cx);
    assert.equal((await say(cx, session, "/ask Which city?", "/say done")).stopReason, "end_turn");
    assert.equal(text(seen), "Which city?\n");
    await say(cx, session, "Oslo");
  });
  assert.equal(text(posed), "Which city?\ndone");
});

test("session/cancel ends the turn as cancelled, and the request is aborted", async () => {
  await edit({}, async (cx, seen) => {
    const session = await begin(cx);
    const turn = say(cx, session, '/tool echo {"text":"late","delay":"30s"}', "/say never");
    await until(() => states(seen).includes("in_progress"), "the tool runs");
    const begun = Date.now();
    await cx.notify(call.session.cancel, { sessionId: session });
    assert.equal((await turn).stopReason, "cancelled");
    assert.ok(Date.now() - begun < 5000, "the cancellation took too long");
    assert.equal(states(seen).at(-1), "failed");
    assert.equal((await say(cx, session, "/say next")).stopReason, "end_turn");
  });
});

test("session/cancel ends a turn that waits for an approval", async () => {
  let asked;
  const permit = () => new Promise((resolve) => (asked = resolve));
  await edit({ agent: "careful", permit }, async (cx) => {
    const session = await begin(cx);
    const turn = say(cx, session, '/tool calculator {"expression":"6*7"}', "/say done");
    await until(() => asked, "the approval is asked");
    await cx.notify(call.session.cancel, { sessionId: session });
    asked({ outcome: { outcome: "cancelled" } });
    assert.equal((await turn).stopReason, "cancelled");
  });
});

test("a prompt that comes while a turn runs cancels the turn", async () => {
  const seen = await edit({}, async (cx, seen) => {
    const session = await begin(cx);
    const first = say(cx, session, '/tool echo {"text":"late","delay":"30s"}', "/say never");
    await until(() => states(seen).includes("in_progress"), "the tool runs");
    const second = say(cx, session, "/say instead");
    assert.equal((await first).stopReason, "cancelled");
    assert.equal((await second).stopReason, "end_turn");
  });
  assert.equal(text(seen), "instead");
});

test("a request continues without its editor, and a session that is loaded shows the rest", async () => {
  let session;
  await edit({}, async (cx, seen) => {
    session = await begin(cx);
    say(cx, session, '/tool echo {"text":"late","delay":"3s"}', "/say at last").catch(() => {});
    await until(() => states(seen).includes("in_progress"), "the tool runs");
  });
  await edit({}, async (cx, seen) => {
    await cx.request(call.session.load, { sessionId: session, cwd, mcpServers: [] });
    await until(() => text(seen) === "at last", "the rest of the request");
    assert.equal(seen.updates.filter((u) => u.sessionUpdate === "user_message_chunk").length, 1);
  });
});

test("files and pictures of a prompt reach the agent", async () => {
  const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  await edit({}, async (cx, seen) => {
    const session = await begin(cx);
    await cx.request(call.session.prompt, { sessionId: session, prompt: [
      { type: "text", text: "read these" }, { type: "image", mimeType: "image/png", data: picture },
      { type: "resource_link", name: "main.go", uri: "file:///src/main.go" },
      { type: "resource", resource: { uri: "file:///src/a.txt", text: "alpha" } },
    ] });
    seen.updates.length = 0;
    await cx.request(call.session.load, { sessionId: session, cwd, mcpServers: [] });
    const said = seen.updates.filter((u) => u.sessionUpdate === "user_message_chunk").map((u) => u.content);
    assert.equal(said.length, 4);
    assert.equal(said[1].data, picture);
    assert.match(said[2].text, /main\.go.*file:\/\/\/src\/main\.go/);
    assert.match(said[3].text, /alpha/);
  });
});

test("a model is selected as a setting of the session", async () => {
  await edit({ agent: "choosy" }, async (cx, seen) => {
    const { sessionId, configOptions } = await cx.request(call.session.new, { cwd, mcpServers: [] });
    assert.deepEqual(configOptions[0].options.map((o) => o.value), ["small", "large"]);
    const changed = await cx.request(call.session.setConfigOption, { sessionId, configId: "model", value: "large" });
    assert.equal(changed.configOptions[0].currentValue, "large");
    assert.equal((await say(cx, sessionId, "/say fine")).stopReason, "end_turn");
    await assert.rejects(cx.request(call.session.setConfigOption, { sessionId, configId: "model", value: "huge" }), { code: -32602 });
    assert.equal(text(seen), "fine");
  });
});

test("MCP servers of the editor are refused with a remark", async () => {
  const server = { name: "files", command: "/bin/false", args: [], env: [] };
  for (const [capabilities, kind] of [[{}, "agent_thought_chunk"], [{ session: { notices: {} } }, "notice"]]) {
    const seen = await edit({ capabilities }, async (cx) => {
      const session = await begin(cx, { mcpServers: [server] });
      await say(cx, session, "/say one");
      await say(cx, session, "/say two");
    });
    const remarks = seen.updates.filter((u) => u.sessionUpdate === kind);
    assert.equal(remarks.length, 1);
    assert.match(remarks[0].title ?? remarks[0].content.text, /1 MCP server/);
  }
});

test("failures are errors with a code and end their tool calls", async () => {
  await edit({ agent: "missing" }, async (cx) => {
    const session = await begin(cx);
    await assert.rejects(say(cx, session, "hello"), (error) => error.data?.code === "agent_not_found" && error.data.retryable === false);
    await assert.rejects(say(cx, "thr_unknown", "hello"), { code: -32002 });
    await assert.rejects(cx.request("session/fork", { sessionId: session }), { code: -32601 });
    await assert.rejects(cx.request("_custom/method", {}), { code: -32601 });
    await assert.rejects(cx.request(call.session.prompt, { sessionId: session, prompt: [] }), { code: -32602 });
  });
});

test("messages that are not valid get an error, and the connection stays", async () => {
  const child = spawn(program, ["acp", "--url", base], { stdio: ["pipe", "pipe", "inherit"] });
  const answers = [];
  lines(child.stdout, (line) => answers.push(JSON.parse(line)));
  child.stdin.write('{"jsonrpc"\n[{"jsonrpc":"2.0","id":1,"method":"initialize"}]\n{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":9}}\n');
  await until(() => answers.length === 3, "three answers");
  assert.deepEqual(answers.map((a) => a.error?.code ?? a.result.protocolVersion), [-32700, -32600, 1]);
  child.stdin.end();
  assert.equal(await new Promise((resolve) => child.on("close", resolve)), 0);
});
