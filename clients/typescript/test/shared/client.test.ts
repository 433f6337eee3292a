// The client on real gateways, also over connections that are cut and through several gateways.
import { describe, expect, inject, test, vi } from "vitest";
import { AgentClient, type AgentEvent, AgentEventSchema, ApiError, type ClientOptions, ConnectionError, ProtocolError } from "../../src/index.js";

const gateways = inject("gateways");
const client = new AgentClient(gateways[0]!);
const other = new AgentClient(gateways.at(-1)!); // another gateway where there are several
const cutting = new AgentClient(inject("cutting"));

const prompt = (...lines: string[]) => ({ messages: [{ role: "user" as const, content: lines.join("\n") }] });

async function collect(events: AsyncIterable<AgentEvent>): Promise<AgentEvent[]> {
  const all: AgentEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

// text returns what the deltas of an answer say.
const text = (events: AgentEvent[]) => events.map((event) => (event.event === "text" && event.stage === "delta" ? event.delta : "")).join("");

function unique(events: AgentEvent[]) {
  const ids = events.map((event) => `${event.requestId} ${event.id}`);
  expect(new Set(ids).size, "events that came twice").toBe(ids.length);
}

// rejection returns the error of a call.
const rejection = (promise: Promise<unknown>): Promise<unknown> => promise.then(() => expect.fail("the call succeeded"), (error: unknown) => error);

// counting is a fetch that counts the calls of a path.
function counting(part: string) {
  const count = vi.fn();
  const call: typeof fetch = (input, init) => {
    if (String(input).includes(part)) count();
    return fetch(input, init);
  };
  return { count, options: { fetch: call } satisfies ClientOptions };
}

describe("a stream", () => {
  test("yields valid events up to the terminal one", async () => {
    const stream = client.stream("demo", prompt("/think hm", "/say hello", '/tool echo {"text":"x"}', "/say end"), { include: ["extended"] });
    const events = await collect(stream);
    for (const event of events) AgentEventSchema.parse(event);
    expect(events.at(-1)).toMatchObject({ event: "done", finishReason: "stop" });
    expect(events.map((event) => event.event)).toEqual(expect.arrayContaining(["input", "metadata", "thinking", "tool_call", "tool_result", "usage"]));
    expect(stream).toMatchObject({ requestId: events[0]!.requestId, cursor: events.at(-1)!.id, threadId: expect.any(String) });
  });

  test("is complete and without repetition over connections that are cut, on all gateways", async () => {
    const { count, options } = counting("/stream");
    const stream = new AgentClient(inject("cutting"), options).stream("demo", prompt("/stream 40 100"));
    const events = await collect(stream);
    unique(events);
    expect(count.mock.calls.length).toBeGreaterThan(1);
    const stored = await collect(other.follow(stream.requestId!));
    expect(events).toEqual(stored);
  });

  test("starts one request, although its first connections are cut", async () => {
    const { options, count } = counting("/stream");
    let failures = 2;
    const lost: typeof fetch = async (input, init) => {
      const response = await options.fetch!(input, init);
      if (failures-- <= 0) return response;
      await response.body?.cancel(); // the server has accepted the request, and its response is lost
      throw new TypeError("the connection was cut");
    };
    const stream = new AgentClient(gateways[0]!, { fetch: lost }).stream("demo", prompt("/say once"));
    expect(text(await collect(stream))).toBe("once");
    expect(count).toHaveBeenCalledTimes(3);
    expect((await client.thread(stream.threadId!)).requests).toBe(1);
  });

  test("continues after an iteration that was left", async () => {
    const stream = client.stream("demo", prompt("/stream 20 100"));
    const first: AgentEvent[] = [];
    for await (const event of stream) {
      first.push(event);
      if (first.length === 5) break;
    }
    const events = [...first, ...(await collect(stream))];
    unique(events);
    expect(events).toEqual(await collect(client.follow(stream.requestId!)));
    expect(await collect(stream)).toEqual([]);
  });

  test("cannot be iterated twice at the same time", async () => {
    const stream = client.stream("demo", prompt("/stream 20 100"));
    for await (const _ of stream) {
      await expect(collect(stream)).rejects.toThrow("another iteration");
      break;
    }
  });

  test("ends with the reason of the signal, and the request runs on", async () => {
    const stop = new AbortController();
    const stream = client.stream("demo", prompt("/sleep 300ms", "/say end"), { signal: stop.signal });
    const reason = new Error("the page was left");
    const error = rejection(
      (async () => {
        for await (const _ of stream) stop.abort(reason);
      })(),
    );
    expect(await error).toBe(reason);
    expect(text(await collect(other.follow(stream.requestId!)))).toBe("end");
  });

  test("follows after a cursor, and not after the terminal event", async () => {
    const stream = client.stream("demo", prompt("/say hello"));
    const events = await collect(stream);
    expect(await collect(other.follow(stream.requestId!, { after: events[2]!.id! }))).toEqual(events.slice(3));
    expect(await collect(client.follow(stream.requestId!, { after: stream.cursor! }))).toEqual([]);
  });

  test("starts again with a cursor of another log if the caller handles it", async () => {
    const stream = client.stream("demo", prompt("/say hello"));
    const events = await collect(stream);
    const onReset = vi.fn();
    expect(await collect(client.follow(stream.requestId!, { after: "another-2", onReset }))).toEqual(events);
    expect(onReset).toHaveBeenCalledOnce();
    expect(await rejection(collect(client.follow(stream.requestId!, { after: "another-2" })))).toBeInstanceOf(ProtocolError);
  });

  test("of a failed request ends with its error", async () => {
    const events = await collect(client.stream("demo", prompt("/fail tool_error")));
    expect(events.at(-1)).toMatchObject({ event: "error", code: "tool_error", retryable: false });
  });
});

describe("an error", () => {
  test("has the code of the API", async () => {
    const error = await rejection(collect(client.stream("missing", prompt("/say hello"))));
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ code: "agent_not_found", status: 404, retryable: false, message: expect.stringContaining("missing") });
    expect(await rejection(client.thread("thr_missing"))).toMatchObject({ code: "thread_not_found" });
    expect(await rejection(client.start("demo", { messages: [] }))).toMatchObject({ code: "invalid_message_format" });
  });

  test("names the request that runs on a busy thread", async () => {
    const { requestId, threadId } = await client.start("demo", prompt("/sleep 20s"));
    const error = await rejection(client.start("demo", { ...prompt("/say no"), threadId }));
    expect(error).toMatchObject({ code: "thread_busy", runningRequestId: requestId });
    await client.abort(requestId);
  });

  test("of a server that does not respond comes soon", async () => {
    const absent = new AgentClient("http://127.0.0.1:9");
    expect(await rejection(collect(absent.stream("demo", prompt("/say hello"))))).toBeInstanceOf(ConnectionError);
    expect(await rejection(absent.agents())).toBeInstanceOf(ConnectionError);
  });

  test("of an address without a scheme is thrown at once", () => {
    expect(() => new AgentClient("127.0.0.1:8080")).toThrow("http://127.0.0.1:8080");
  });
});

describe("a request", () => {
  test("runs in the background", async () => {
    const key = `key-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    const started = await client.start("demo", prompt("/say hello"), { idempotencyKey: key });
    expect(await other.start("demo", prompt("/say hello"), { idempotencyKey: key })).toMatchObject({ requestId: started.requestId });
    expect(text(await collect(other.follow(started.requestId)))).toBe("hello");
    expect(await other.request(started.requestId)).toMatchObject({ status: "done", terminal: { event: "done" } });
  });

  test("is aborted with a reason", async () => {
    const stream = client.stream("demo", prompt("/sleep 20s"));
    let last: AgentEvent | undefined;
    for await (const event of stream) {
      if (event.event === "metadata") await other.abort(event.requestId, "not needed");
      last = event;
    }
    expect(last).toMatchObject({ event: "aborted", reason: "not needed" });
    expect(await rejection(client.abort(stream.requestId!))).toMatchObject({ code: "request_finished" });
  });

  test("is steered, and followed by another one", async () => {
    const first = await client.start("demo", prompt("/sleep 1s", '/tool echo {"text":"x"}'));
    const next = await client.followUp(first.requestId, prompt("/say next"));
    const steerId = await other.steer(first.requestId, "/say steered");
    const events = await collect(client.follow(first.requestId, { include: ["input"] }));
    expect(events).toContainEqual(expect.objectContaining({ event: "input", steerId }));
    expect(text(await collect(client.follow(next.requestId)))).toBe("next");
    expect(next.threadId).toBe(first.threadId);
  });
});

describe("an action", () => {
  const approval = prompt('/tool calculator {"expression":"6*7"}', "/say end");

  test("is approved", async () => {
    const stream = client.stream("careful", approval);
    await collect(stream);
    expect(stream.actions).toMatchObject([{ kind: "approval", payload: { name: "calculator", args: { expression: "6*7" } } }]);
    const { requestId } = await other.approve(stream.actions[0]!);
    expect(await collect(client.follow(requestId))).toContainEqual(expect.objectContaining({ event: "tool_result", status: "success", summary: "6*7 = 42" }));
    expect(await rejection(client.approve(stream.actions[0]!))).toMatchObject({ code: "invalid_action_id" });
  });

  test("is denied, from the list of open actions", async () => {
    const stream = client.stream("careful", approval);
    await collect(stream);
    const { actions } = await other.actions({ threadId: stream.threadId! });
    const { requestId } = await other.deny(actions[0]!, "too hard");
    expect(await collect(client.follow(requestId))).toContainEqual(expect.objectContaining({ event: "tool_result", status: "denied" }));
  });

  test("is answered", async () => {
    const stream = client.stream("careful", prompt("/ask Which city?", "/say end"));
    await collect(stream);
    expect(stream.actions).toMatchObject([{ kind: "input", payload: { question: "Which city?" } }]);
    const { requestId } = await client.answer(stream.actions[0]!, "Oslo");
    expect(text(await collect(client.follow(requestId)))).toBe("end");
  });

  test("is decided in a run, with a tool of the client", async () => {
    const request = {
      ...prompt('/tool calculator {"expression":"6*7"}', "/client-tool get_location {}", "/say end"),
      tools: [{ name: "get_location", schema: { type: "object" } }],
    };
    const kinds: string[] = [];
    const run = cutting.run("careful", request, {
      decide: async (action) => {
        kinds.push(`${action.kind} ${action.payload.name}`);
        return action.kind === "tool" ? { status: "success", result: { city: "Oslo" } } : { status: "success" };
      },
    });
    const events = await collect(run);
    unique(events);
    expect(kinds).toEqual(["approval calculator", "tool get_location"]);
    expect(events.at(-1)).toMatchObject({ event: "done", finishReason: "stop" });
  });
});

describe("a thread", () => {
  test("is followed over cut connections from its first request to its deletion", async () => {
    const { threadId, requestId } = await client.start("demo", prompt("/stream 20 100"));
    await collect(client.follow(requestId));
    const stream = cutting.followThread(threadId, { fromStart: true });
    const events: AgentEvent[] = [];
    for await (const event of stream) {
      events.push(event);
      if (event.event !== "done") continue;
      if (event.requestId === requestId) await other.start("demo", { ...prompt("/stream 20 100"), threadId });
      else await client.deleteThread(threadId);
    }
    expect(events.filter((event) => event.event === "input")).toHaveLength(2);
    expect(events.filter((event) => event.event === "text" && event.stage === "delta")).toHaveLength(40);
    unique(events);
  });

  test("is followed after a cursor", async () => {
    const { threadId } = await client.start("demo", prompt("/say hello"));
    const stream = client.followThread(threadId, { fromStart: true });
    for await (const event of stream) if (event.event === "done") break;
    const next = await client.start("demo", { ...prompt("/say again"), threadId });
    const events: AgentEvent[] = [];
    for await (const event of other.followThread(threadId, { after: stream.cursor! })) {
      events.push(event);
      if (event.event === "done") break;
    }
    expect(new Set(events.map((event) => event.requestId))).toEqual(new Set([next.requestId]));
    expect(text(events)).toBe("again");
  });

  test("is followed after the position at which a stream without an event was left", async () => {
    const { threadId, requestId } = await client.start("demo", prompt("/say hello"));
    await collect(client.follow(requestId));
    const stop = new AbortController();
    const idle: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      stop.abort();
      return response;
    };
    const stream = new AgentClient(gateways[0]!, { fetch: idle }).followThread(threadId, { signal: stop.signal });
    await rejection(collect(stream));
    const next = await client.start("demo", { ...prompt("/say again"), threadId });
    for await (const event of other.followThread(threadId, { after: stream.cursor! })) {
      expect(event.requestId).toBe(next.requestId);
      if (event.event === "done") break;
    }
  });

  test("that does not exist is an error", async () => {
    expect(await rejection(collect(client.followThread("thr_missing")))).toMatchObject({ code: "thread_not_found" });
  });

  test("has a history", async () => {
    const stream = client.stream("demo", prompt("/say hello"));
    const live = await collect(stream);
    const threadId = stream.threadId!;
    expect((await other.messages(threadId)).messages).toMatchObject([
      { role: "user", input: "/say hello" },
      { role: "assistant", content: [{ type: "text", text: "hello" }] },
    ]);
    expect(await collect(other.events(threadId, { type: ["text", "done"] }))).toEqual(live.filter((event) => ["text", "done"].includes(event.event)));
    expect(await collect(other.events(threadId, { until: new Date(0) }))).toEqual([]);
    expect((await client.threads({ limit: 200 })).threads.map((thread) => thread.threadId)).toContain(threadId);
    expect((await client.agents()).map((agent) => agent.name)).toContain("demo");
  });
});
