import { expect, test } from "vitest";
import { type AgentEvent, encodeSSE, parseSSEChunk } from "../../src/index.js";

const event: AgentEvent = {
  event: "text",
  id: "one-3",
  requestId: "req_1",
  timestamp: "2026-01-02T03:04:05Z",
  blockId: "b0",
  stage: "delta",
  deltaIndex: 0,
  delta: "line\nline\u2028é",
};

test("an encoded event is parsed", () => {
  const text = encodeSSE("text", event);
  expect(text).toMatch(/^id: one-3\nevent: text\ndata: \{[^\n]*\}\n\n$/);
  expect(parseSSEChunk(text)).toEqual({ events: [{ event: "text", id: "one-3", data: event }], remainder: "" });
});

test("an event without an id has no id line", () => {
  expect(encodeSSE("text", { ...event, id: undefined })).toMatch(/^event: text\ndata: /);
});

test.each(["te\nxt", "te\rxt", "te\0xt"])("a name that would forge a line is refused: %j", (name) => {
  expect(() => encodeSSE(name, event)).toThrow(TypeError);
  expect(() => encodeSSE("text", { ...event, id: name })).toThrow(TypeError);
});

test.each(["\n", "\r\n", "\r"])("lines that end with %j, in chunks of any size", (end) => {
  const stream = `: heartbeat\n\n${encodeSSE("text", event)}retry: 250\n\nid\ndata:{"event":\ndata: "custom"}\n\n`.repeat(2).replaceAll("\n", end);
  const whole = [
    { event: "text", id: "one-3", data: event },
    { event: "message", id: "", data: { event: "custom" } },
  ];
  for (let size = 1; size <= stream.length; size++) {
    const events = [];
    let remainder = "";
    let retry: number | undefined;
    for (let at = 0; at < stream.length; at += size) {
      const result = parseSSEChunk(remainder + stream.slice(at, at + size));
      events.push(...result.events);
      remainder = result.remainder;
      retry = result.retry ?? retry;
    }
    events.push(...parseSSEChunk(`${remainder}\n`).events); // a CR at the end may be the first half of CRLF
    expect(events, `chunks of ${size}`).toEqual([...whole, ...whole]);
    expect(retry).toBe(250);
  }
});

test.each(["data: {\n\n", "data: null\n\n", 'data: "text"\n\n', "data: {}\n\n", "data: 1\n\n"])("data that is not an event is refused: %j", (chunk) => {
  expect(() => parseSSEChunk(chunk)).toThrow(SyntaxError);
});

test("an event that is not complete is the remainder", () => {
  const text = encodeSSE("text", event);
  expect(parseSSEChunk(text + text.slice(0, -1))).toMatchObject({ events: [{}], remainder: text.slice(0, -1) });
});
