// OpenAI's Responses, tested with the published client: openai must work unmodified.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import net from "node:net";
import OpenAI from "openai";
import ts from "typescript";
import { test } from "./harness.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

const connect = (at = base) => new OpenAI({ baseURL: `${at}/openai/v1`, apiKey: "unused", maxRetries: 0 });
const client = connect();
const elsewhere = connect(other);
const lines = (...all) => all.join("\n");
const create = (input, options = {}) => client.responses.create({ model: "demo", input, ...options });
const requestId = (response) => response.id.replace("resp_", "");
const thread = async (response) => (await (await fetch(`${base}/v1/requests/${requestId(response)}`)).json()).threadId;
const types = (response) => response.output.map((item) => item.type);

// collect reads a stream to its end.
async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

// ended polls a response until it has ended.
async function ended(id, at = elsewhere) {
  for (;;) {
    const response = await at.responses.retrieve(id);
    if (response.status !== "queued" && response.status !== "in_progress") return response;
  }
}

test("a response", async () => {
  const response = await create(lines("/think a product", '/tool calculator {"expression":"6*7"}', "/say it is 42"), { metadata: { a: "b" } });
  assert.equal(response.status, "completed");
  assert.equal(response.output_text, "it is 42");
  assert.deepEqual(types(response), ["reasoning", "mcp_call", "message"]);
  assert.deepEqual(response.output[0].summary, [{ type: "summary_text", text: "a product" }]);
  assert.equal(response.output[1].name, "calculator");
  assert.deepEqual(JSON.parse(response.output[1].arguments), { expression: "6*7" });
  assert.equal(response.output[1].output, "6*7 = 42");
  assert.deepEqual(response.metadata, { a: "b" });
  assert.equal(response.model, "demo");
  assert.ok(response.usage.total_tokens > 0);
  assert.ok(Math.abs(response.created_at - Date.now() / 1000) < 600);
  assert.deepEqual(await elsewhere.responses.retrieve(response.id), response);
});

test("a stream, read by the client's helper", async () => {
  const runner = client.responses.stream({ model: "demo", input: lines("/think hm", "/say one", '/tool echo {"text":"x"}', "/say two") });
  let text = "";
  runner.on("response.output_text.delta", (event) => void (text += event.delta));
  const final = await runner.finalResponse();
  assert.equal(text, "onetwo");
  assert.equal(final.output_text, "onetwo");
  assert.deepEqual(types(final), ["reasoning", "message", "mcp_call", "message"]);
  const { output_parsed, ...rest } = final;
  const stored = await client.responses.retrieve(final.id);
  assert.equal(rest.created_at, stored.created_at);
  assert.deepEqual(rest.usage, stored.usage);
  assert.deepEqual(rest.output.map((item) => item.id), stored.output.map((item) => item.id));
});

test("the order of events, and their numbers", async () => {
  const events = await collect(await create(lines("/say one"), { stream: true }));
  assert.deepEqual(events.map((e) => e.type), [
    "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
    "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
  ]);
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
});

test("a stream continues after each event on another gateway", async () => {
  const events = await collect(await create(lines("/think a", '/tool echo {"text":"x"}', "/say b c d"), { stream: true }));
  for (const { sequence_number } of events) {
    const rest = await collect(await elsewhere.responses.retrieve(events[0].response.id, { stream: true, starting_after: sequence_number }));
    assert.deepEqual(rest, events.slice(sequence_number + 1));
  }
});

// cutter is a proxy that cuts the connection after some bytes of the response.
async function cutter(after) {
  const target = new URL(base);
  const server = net.createServer((from) => {
    const to = net.connect(Number(target.port), target.hostname);
    let left = after;
    from.pipe(to);
    to.on("data", (data) => {
      left -= data.length;
      from.write(data.subarray(0, data.length + Math.min(0, left)));
      if (left <= 0) from.end(() => from.destroy());
    });
    for (const [one, peer] of [[from, to], [to, from]]) one.on("error", () => peer.destroy()).on("close", () => peer.destroy());
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

test("a cut socket, and the rest from another gateway", async () => {
  const proxy = await cutter(9000);
  const seen = [];
  await assert.rejects(async () => {
    const stream = await connect(proxy.url).responses.create({ model: "demo", input: lines("/stream 60 30", "/say the end"), stream: true, background: true });
    for await (const event of stream) seen.push(event);
  });
  proxy.close();
  assert.ok(seen.length > 2, `the proxy has passed ${seen.length} events`);
  assert.equal(seen.at(-1).type, "response.output_text.delta");
  const rest = await collect(await elsewhere.responses.retrieve(seen[0].response.id, { stream: true, starting_after: seen.at(-1).sequence_number }));
  const events = [...seen, ...rest];
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
  assert.match(events.at(-1).response.output.at(-1).content[0].text, /the end$/);
});

test("a client that is slow gets everything", async () => {
  const stream = await create(lines("/stream 400 0 200", "/say the end"), { stream: true });
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (events.length % 50 === 0) await new Promise((next) => setTimeout(next, 20));
  }
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
  assert.match(events.at(-1).response.output.at(-1).content[0].text, /the end$/);
});

test("a response in the background is polled, and streamed later", async () => {
  const response = await create(lines("/sleep 200ms", "/say done"), { background: true });
  assert.ok(["queued", "in_progress"].includes(response.status), response.status);
  assert.equal(response.background, true);
  const final = await ended(response.id);
  assert.equal(final.output_text, "done");
  assert.equal(final.created_at, response.created_at);
  const replay = await elsewhere.responses.stream({ response_id: response.id }).finalResponse();
  assert.equal(replay.output_text, "done");
});

test("a response that is cancelled", async () => {
  const response = await create("/sleep 30s", { background: true });
  const cancelled = await elsewhere.responses.cancel(response.id);
  assert.equal(cancelled.status, "cancelled");
  assert.deepEqual(await elsewhere.responses.cancel(response.id), cancelled);
});

test("a stream that another client cancels", async () => {
  const stream = await create("/stream 100000 20", { stream: true });
  let stopped;
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (event.type === "response.output_text.delta") stopped ??= elsewhere.responses.cancel(events[0].response.id);
  }
  assert.equal((await stopped).status, "cancelled");
  assert.equal(events.at(-1).type, "response.incomplete");
  assert.equal(events.at(-1).response.status, "cancelled");
  assert.deepEqual(events.at(-1).response.output, (await stopped).output);
});

test("a client that leaves does not end the request", async () => {
  const stream = await create(lines("/stream 40 20", "/say the end"), { stream: true });
  let id;
  for await (const event of stream) {
    id = event.response.id;
    break;
  }
  assert.match((await ended(id)).output_text, /the end$/);
});

const pick = { type: "function", name: "pick_file", description: "picks a file", strict: false, parameters: { type: "object", properties: { kind: { type: "string" } } } };

for (const chained of [true, false]) {
  test(`a tool of the client, ${chained ? "after the previous response" : "in a conversation of the client"}`, async () => {
    const script = lines('/client-tool pick_file {"kind":"pdf"}', "/say thanks");
    const runner = client.responses.stream({ model: "demo", input: script, tools: [pick] });
    const deltas = [];
    runner.on("response.function_call_arguments.delta", (event) => void deltas.push(event.snapshot));
    const asked = await runner.finalResponse();
    assert.deepEqual(types(asked), ["function_call"]);
    const [call] = asked.output;
    assert.equal(call.name, "pick_file");
    assert.deepEqual(JSON.parse(call.arguments), { kind: "pdf" });
    assert.equal(deltas.at(-1), call.arguments);
    const result = { type: "function_call_output", call_id: call.call_id, output: '{"file":"a.pdf"}' };
    const next = chained
      ? { previous_response_id: asked.id, input: [result] }
      : { input: [{ role: "user", content: script }, { type: "function_call", id: call.id, call_id: call.call_id, name: call.name, arguments: call.arguments }, result] };
    const answer = await client.responses.create({ model: "demo", tools: [pick], ...next });
    assert.equal(answer.output_text, "thanks");
    assert.deepEqual(types(answer), ["message"]);
    assert.equal(await thread(answer), await thread(asked));
    await assert.rejects(client.responses.create({ model: "demo", tools: [pick], ...next }), { status: 400, code: "invalid_action_id" });
  });
}

for (const approve of [true, false]) {
  test(`an approval that is ${approve ? "given" : "denied"}`, async () => {
    const asked = await create(lines('/approve echo {"text":"careful"}', "/say after"));
    assert.deepEqual(types(asked), ["mcp_approval_request"]);
    const [request] = asked.output;
    assert.equal(request.name, "echo");
    assert.deepEqual(JSON.parse(request.arguments), { text: "careful" });
    const input = [{ type: "mcp_approval_response", approval_request_id: request.id, approve, ...(!approve && { reason: "not today" }) }];
    const answer = await create(input, { previous_response_id: asked.id });
    assert.equal(answer.output_text, "after");
    assert.equal(answer.previous_response_id, asked.id);
    assert.deepEqual(types(answer), approve ? ["mcp_call", "message"] : ["message"]);
    if (approve) assert.equal(answer.output[0].approval_request_id, request.id);
    await assert.rejects(create(input, { previous_response_id: asked.id }), { status: 400, code: "invalid_action_id" });
    const { data } = await client.responses.inputItems.list(answer.id);
    assert.equal(data[0].type, "mcp_approval_response");
    assert.equal(data[0].approval_request_id, request.id);
    assert.equal(data[0].approve, approve);
  });
}

test("an approval that a client of the native protocol gives", async () => {
  const asked = await create(lines('/approve echo {"text":"careful"}', "/say after"));
  const threadId = await thread(asked);
  const { actions } = await (await fetch(`${other}/v1/actions`)).json();
  const action = actions.find((one) => one.threadId === threadId);
  const native = await fetch(`${other}/v1/agents/demo/requests`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ threadId, messages: [], context: { actionResults: [{ actionId: action.actionId, status: "success" }] } }),
  });
  assert.equal(native.status, 202);
  const next = await ended(`resp_${native.headers.get("x-request-id")}`, client);
  assert.deepEqual(types(next), ["mcp_call", "message"]);
  assert.equal(next.output[0].approval_request_id, asked.output[0].id);
  const input = [{ type: "mcp_approval_response", approval_request_id: asked.output[0].id, approve: true }];
  await assert.rejects(create(input, { previous_response_id: asked.id }), { status: 400, code: "invalid_action_id" });
  await assert.rejects(create("/say more", { previous_response_id: asked.id }), (error) => error.status === 400 && error.message.includes(next.id));
});

test("a question", async () => {
  const asked = await create(lines("/ask Which page?", "/say thanks"));
  const [call] = asked.output;
  assert.equal(call.name, "ask_user");
  assert.deepEqual(JSON.parse(call.arguments), { question: "Which page?" });
  const answer = await create([{ type: "function_call_output", call_id: call.call_id, output: "3" }], { previous_response_id: asked.id });
  assert.equal(answer.output_text, "thanks");
});

test("a chain of responses, and a conversation", async () => {
  const first = await create("/say first");
  const second = await create("/say second", { previous_response_id: first.id, instructions: "be brief" });
  assert.equal(second.output_text, "second");
  assert.equal(second.instructions, "be brief");
  assert.equal(await thread(second), await thread(first));
  await assert.rejects(create("/say third", { previous_response_id: first.id }), (error) => error.status === 400 && error.message.includes(second.id));
  const conversation = randomUUID();
  const one = await create("/say one", { conversation });
  const two = await create([{ role: "user", content: "/say two" }], { conversation: { id: conversation } });
  assert.equal(two.output_text, "two");
  assert.deepEqual(two.conversation, { id: conversation });
  assert.equal(await thread(one), conversation);
  assert.equal(await thread(two), conversation);
});

test("references to items continue their thread", async () => {
  const first = await create("/say first");
  const input = [{ role: "user", content: "/say first" }, { type: "item_reference", id: first.output[0].id }, { role: "user", content: "/say second" }];
  const second = await create(input);
  assert.equal(second.output_text, "second");
  assert.equal(second.previous_response_id, first.id);
});

test("a conversation of the client is the history", async () => {
  const first = await create(lines('/tool echo {"text":"x"}', "/say first"));
  const second = await create([{ role: "developer", content: "be brief" }, { role: "user", content: "first" }, ...first.output, { role: "user", content: "/say second" }]);
  assert.equal(second.output_text, "second");
  assert.equal(second.instructions, "be brief");
  const { messages } = await (await fetch(`${base}/v1/threads/${await thread(second)}/messages`)).json();
  assert.deepEqual(messages.map((m) => m.role), ["user", "assistant", "assistant", "user", "assistant"]);
  const items = await client.responses.inputItems.list(second.id, { order: "asc", limit: 2 });
  assert.deepEqual(items.data.map((item) => item.type), ["message", "function_call"]);
  const rest = [];
  for await (const item of items) rest.push(item.type);
  assert.deepEqual(rest, ["message", "function_call", "function_call_output", "message", "message"]);
});

test("an image reaches the thread", async () => {
  const image_url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const response = await create([{ role: "user", content: [{ type: "input_text", text: "/say seen" }, { type: "input_image", image_url, detail: "auto" }] }]);
  assert.equal(response.output_text, "seen");
  const { data } = await client.responses.inputItems.list(response.id);
  assert.deepEqual(data[0].content.map((part) => part.type), ["input_text", "input_image"]);
  assert.equal(data[0].content[1].image_url, image_url);
});

test("a structured answer", async () => {
  const format = { type: "json_schema", name: "sum", strict: true, schema: { type: "object", properties: { sum: { type: "number" } }, required: ["sum"], additionalProperties: false } };
  const response = await client.responses.parse({ model: "demo", input: '/say {"sum":42}', text: { format } });
  assert.deepEqual(response.output_parsed, { sum: 42 });
  assert.deepEqual(response.text.format, format);
});

test("a failure", async () => {
  const response = await create(lines("/say before", "/fail agent_error"));
  assert.equal(response.status, "failed");
  assert.equal(response.error.code, "server_error");
  assert.equal(response.error.type, "agent_error");
  assert.equal(response.output_text, "before");
  const events = await collect(await create(lines("/say before", "/fail agent_error"), { stream: true }));
  assert.equal(events.at(-1).type, "response.failed");
  assert.equal(events.at(-1).response.error.type, "agent_error");
});

test("errors before the request", async () => {
  await assert.rejects(client.responses.create({ model: "missing", input: "hi" }), { status: 404, code: "agent_not_found", type: "invalid_request_error" });
  await assert.rejects(create([]), { status: 400, type: "invalid_request_error" });
  await assert.rejects(create("hi", { tools: [{ type: "web_search" }] }), /tools\[0\]\.type/);
  await assert.rejects(create("hi", { previous_response_id: "resp_req_missing" }), { status: 404, code: "request_not_found" });
  await assert.rejects(client.responses.retrieve("resp_req_missing"), { status: 404, code: "request_not_found" });
});

test("a response is deleted", async () => {
  const first = await create("/say first");
  const second = await create("/say second", { previous_response_id: first.id });
  await assert.rejects(client.responses.delete(second.id), { status: 400 });
  const alone = await create("/say alone");
  await client.responses.delete(alone.id);
  await assert.rejects(elsewhere.responses.retrieve(alone.id), { status: 404 });
});

test("an idempotency key", async () => {
  const options = { headers: { "Idempotency-Key": randomUUID() } };
  const request = { model: "demo", input: "/say once" };
  const first = await client.responses.create(request, options);
  assert.deepEqual(await elsewhere.responses.create(request, options), first);
});

test("an agent that is called, and what this API does not show", async () => {
  const called = await client.responses.create({ model: "lead", input: lines('/tool agent__helper {"task":"/say inner"}', "/say outer") });
  assert.deepEqual(types(called), ["mcp_call", "message"]);
  assert.equal(called.output[0].name, "agent__helper");
  assert.equal(called.output[0].status, "completed");
  assert.equal(called.output_text, "outer");
  const events = await collect(await create(lines("/plan one; two", "/plan-done 1", '/custom example.chart {"points":[1,2]}', "/say done"), { stream: true }));
  assert.equal(events.at(-1).response.output.at(-1).content[0].text, "done");
});

// fits is a module that only compiles if the events and the response are of the types of the client. Its Response has members that
// only the client adds, and lacks one that the API has; the client for Python has the name of a function in one more event.
const fits = (events, response) => `
import type { Response, ResponseFunctionCallArgumentsDoneEvent, ResponseStreamEvent } from "openai/resources/responses/responses";
type Sent = Omit<Response, "output_text"> & { store: boolean };
type Of<E> = E extends { response: Response } ? Omit<E, "response"> & { response: Sent } : E;
type Event = Of<Exclude<ResponseStreamEvent, ResponseFunctionCallArgumentsDoneEvent>> | (ResponseFunctionCallArgumentsDoneEvent & { name: string });
export const response: Sent = ${JSON.stringify(response)};
${events.map((event, i) => `export const event${i}: Event = ${JSON.stringify(event)};`).join("\n")}
`;

test("events and responses are of the types of the client", async () => {
  const script = lines("/think hm", '/tool calculator {"expression":"6*7"}', '/tool calculator {"expression":"?"}', '/client-tool pick_file {"kind":"pdf"}');
  const asked = await collect(await create(script, { stream: true, tools: [pick], temperature: 0.5, metadata: { a: "b" }, instructions: "be brief" }));
  const { id } = asked[0].response;
  const approval = await collect(await create('/approve echo {"text":"x"}', { stream: true, background: true }));
  const failure = await collect(await create(lines("/say one", "/fail agent_error"), { stream: true }));
  const { output_text, ...response } = await client.responses.retrieve(id);
  const name = new URL("fits.mts", import.meta.url).pathname;
  const options = { strict: true, noEmit: true, skipLibCheck: true, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, target: ts.ScriptTarget.ES2022 };
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile;
  const text = fits([...asked, ...approval, ...failure], response);
  host.getSourceFile = (file, ...rest) => (file === name ? ts.createSourceFile(file, text, ts.ScriptTarget.ES2022) : read(file, ...rest));
  const found = ts.getPreEmitDiagnostics(ts.createProgram([name], options, host));
  assert.deepEqual(found.map((one) => ts.flattenDiagnosticMessageText(one.messageText, " ")), []);
});
