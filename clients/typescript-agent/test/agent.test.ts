// An agent behind agentbus: AGENTBUS_URLS names gateways whose configuration has the agent of AGENTBUS_AGENT at
// AGENTBUS_AGENT_ADDRESS, with the key of AGENTBUS_AGENT_KEY; `make test-clients` starts them.
import { once } from "node:events";
import type { Server } from "node:http";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { AgentClient, type AgentEvent } from "../../typescript/src/index.js";
import { type Agent, AgentError, createHandler, type Turn } from "../src/index.js";
import { serve } from "../src/node.js";

const { AGENTBUS_URLS = "", AGENTBUS_AGENT = "", AGENTBUS_AGENT_ADDRESS = "", AGENTBUS_AGENT_KEY = "" } = process.env;
const client = new AgentClient(AGENTBUS_URLS.split(",")[0]!);
const [host, port] = AGENTBUS_AGENT_ADDRESS.split(":");

let agent: Agent; // of the test
let server: Server;
beforeAll(async () => {
  server = await serve((turn) => agent(turn), { host: host!, port: Number(port), signingKey: AGENTBUS_AGENT_KEY, onError: () => {} });
});
afterAll(() => once(server.close(), "close"));

const prompt = (content: string, threadId?: string) => ({ messages: [{ role: "user" as const, content }], ...(threadId && { threadId }) });

async function collect(events: AsyncIterable<AgentEvent>): Promise<AgentEvent[]> {
  const all: AgentEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

const run = (content: string) => client.stream(AGENTBUS_AGENT, prompt(content), { include: ["extended"] });

// deferred is a promise that the test resolves.
function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((end) => (resolve = end));
  return { promise, resolve };
}

function text(events: AgentEvent[]): string {
  const done = events.find((event) => event.event === "done");
  return (done?.content ?? []).map((block) => (block.type === "text" ? block.text : "")).join("");
}

describe("behind agentbus", () => {
  test("an answer is streamed, with everything that it contains", async () => {
    agent = async function* (turn) {
      yield { type: "thinking", delta: "hm" };
      yield "You said: ";
      yield turn.text;
      yield { type: "plan", steps: [{ content: "answer", done: false }] };
      yield { type: "custom", name: "metric", data: { value: 42 } };
      yield { type: "notice", message: "a notice" };
      yield { type: "end", usage: { inputTokens: 10, outputTokens: 5 }, model: "m1" };
    };
    const events = await collect(run("hello"));
    expect(text(events)).toBe("You said: hello");
    expect(events).toContainEqual(expect.objectContaining({ event: "custom", type: "metric", data: { value: 42 } }));
    expect(events.map((event) => event.event)).toEqual(expect.arrayContaining(["thinking", "plan", "notice"]));
    expect(events.at(-1)).toMatchObject({ event: "done", usage: { inputTokens: 10, outputTokens: 5 } });
  });

  test("a call of a tool is run by agentbus", async () => {
    agent = async function* (turn) {
      const [result] = turn.results;
      if (result) yield `${result.ref} ${result.status} ${result.content}`;
      else yield { type: "tool_call", id: "c1", name: "calculator", args: { expression: "6*7" } };
    };
    expect(text(await collect(run("calculate")))).toBe("c1 success 42");
  });

  test("a tool of the agent is shown", async () => {
    agent = async function* () {
      yield { type: "tool_started", id: "t1", name: "read", args: { path: "a.txt" } };
      yield { type: "tool_ended", id: "t1", content: "A", summary: "1 byte" };
      yield "read";
    };
    const events = await collect(run("read"));
    expect(events).toContainEqual(expect.objectContaining({ event: "tool_result", stage: "stop", name: "read", status: "success", summary: "1 byte" }));
  });

  test.each(["approve", "deny"] as const)("an approval and its decision: %s", async (decision) => {
    agent = async function* (turn) {
      const [result] = turn.results;
      if (result) yield `${result.ref} ${result.status}`;
      else yield { type: "approval", id: "d1", name: "deploy", args: { to: "production" } };
    };
    const stream = run("deploy");
    await collect(stream);
    expect(stream.actions).toMatchObject([{ kind: "approval", payload: { name: "deploy", args: { to: "production" } } }]);
    const { requestId } = await client[decision](stream.actions[0]!);
    expect(text(await collect(client.follow(requestId)))).toBe(decision === "approve" ? "d1 success" : "d1 denied");
  });

  test("a question and its answer, with a session", async () => {
    agent = async function* (turn) {
      const [result] = turn.results;
      if (result) yield `${turn.session}: ${result.content}`;
      else {
        yield { type: "session", session: "session-1" };
        yield { type: "question", id: "q1", question: "Which city?" };
      }
    };
    const stream = run("ask");
    await collect(stream);
    const { requestId } = await client.answer(stream.actions[0]!, "Oslo");
    expect(text(await collect(client.follow(requestId)))).toBe("session-1: Oslo");
  });

  test("an abort ends the agent", async () => {
    const ended = deferred();
    agent = async function* (turn) {
      turn.signal.addEventListener("abort", () => ended.resolve());
      yield "begun";
      await ended.promise;
    };
    const stream = run("wait");
    for await (const event of stream) if (event.event === "text" && event.stage === "delta") await client.abort(event.requestId);
    await ended.promise;
    expect((await client.request(stream.requestId!)).status).toBe("aborted");
  });

  test("an answer that is cut is sent again", async () => {
    const attempts: number[] = [];
    agent = async function* (turn) {
      attempts.push(turn.attempt);
      yield "half";
      if (turn.attempt === 1) server.closeAllConnections();
      yield " whole";
    };
    expect(text(await collect(run("cut")))).toBe("half whole");
    expect(attempts).toEqual([1, 2]);
  });

  test.each([
    ["an error for clients", new AgentError("no capacity", { retryable: true }), { message: expect.stringMatching(/no capacity$/), retryable: true }],
    ["another error", new Error("secret"), { message: expect.stringMatching(/internal error$/), retryable: false }],
  ])("%s ends the request", async (_, error, want) => {
    agent = async function* () {
      yield "half";
      throw error;
    };
    expect((await collect(run("fail"))).at(-1)).toMatchObject({ event: "error", code: "agent_error", ...want });
  });
});

describe("a handler", () => {
  const turn = { requestId: "req_1", threadId: "thr_1", agentId: "a", attempt: 1, known: 0, messages: [], tools: [] };
  const post = (body: string, headers: Record<string, string> = {}) =>
    new Request("http://localhost/", { method: "POST", body, headers: { "Agentbus-Agent-Version": "1", ...headers } });
  const none: Agent = async function* () {};

  test.each([
    ["another method", {}, new Request("http://localhost/"), 405],
    ["another version of the contract", {}, post("{}", { "Agentbus-Agent-Version": "2" }), 400],
    ["a body that is not JSON", {}, post("{"), 400],
    ["a body that is not a turn", {}, post("null"), 400],
    ["a turn without a signature", { signingKey: AGENTBUS_AGENT_KEY }, post(JSON.stringify(turn)), 401],
    ["a turn with another signature", { signingKey: AGENTBUS_AGENT_KEY }, post(JSON.stringify(turn), signed("v1,AAAA")), 401],
    ["a turn that is too large", { maxBody: 10 }, post(JSON.stringify(turn)), 413],
  ])("refuses %s", async (_, options, request, status) => {
    const response = await createHandler(none, options)(request);
    expect(response.status).toBe(status);
    expect(await response.json()).toEqual({ message: expect.any(String) });
  });

  test("ends an answer that has no end", async () => {
    const response = await createHandler(none)(post(JSON.stringify(turn)));
    expect(await response.text()).toBe('{"type":"end"}\n');
  });

  test("sends nothing after the end", async () => {
    const agent: Agent = async function* () {
      yield { type: "end", finishReason: "length" };
      yield "more";
    };
    const response = await createHandler(agent)(post(JSON.stringify(turn)));
    expect(await response.text()).toBe('{"type":"end","finishReason":"length"}\n');
  });

  test("sends empty lines while the agent is silent", async () => {
    const silence = deferred();
    const agent: Agent = async function* () {
      await silence.promise;
      yield "end";
    };
    const response = await createHandler(agent, { heartbeat: 5 })(post(JSON.stringify(turn)));
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader.read()).value).toBe("\n");
    silence.resolve();
    let rest = "";
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) rest += chunk.value;
    expect(rest.trim()).toBe('{"type":"text","delta":"end"}\n{"type":"end"}');
  });

  test("ends the agent when its answer is cancelled, also while it is silent", async () => {
    const turns: Turn[] = [];
    const agent: Agent = async function* (turn) {
      turns.push(turn);
      yield "begun";
      await once(turn.signal, "abort");
      throw new Error("the agent was ended");
    };
    const onError = vi.fn();
    const response = await createHandler(agent, { onError })(post(JSON.stringify(turn)));
    const reader = response.body!.getReader();
    onTestFinished(() => expect(onError).not.toHaveBeenCalled());
    await reader.read();
    await reader.cancel();
    expect(turns[0]!.signal.aborted).toBe(true);
  });
});

function signed(signature: string): Record<string, string> {
  return { "webhook-id": "1", "webhook-timestamp": String(Math.floor(Date.now() / 1000)), "webhook-signature": signature };
}
