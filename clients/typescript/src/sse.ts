// Server-sent events, as the HTML standard defines them: a server encodes with encodeSSE, a client parses with parseSSEChunk.
import type { AgentEvent } from "./types.js";

/** An event of a stream. */
export interface ParsedEvent {
  /** The name of its `event:` line; "message" where the stream names none. */
  event: string;
  /** The JSON of its `data:` lines. */
  data: AgentEvent;
  /** The id to resume after, if the event has one. */
  id?: string;
}

/** What a chunk contains. */
export interface ParseResult {
  events: ParsedEvent[];
  /** What follows the last complete event. Put it in front of the next chunk. */
  remainder: string;
  /** The wait before a reconnect that the chunk asks for, in milliseconds. */
  retry?: number;
}

/**
 * Encodes an event for a stream, with its `id` as the id to resume after. It throws a TypeError if the name or the id contains
 * a line break.
 */
export function encodeSSE(name: string, event: AgentEvent): string {
  for (const field of [name, event.id ?? ""]) {
    if (/[\r\n\0]/.test(field)) throw new TypeError(`encode an event: ${JSON.stringify(field)} contains a line break or NUL`);
  }
  const id = event.id === undefined ? "" : `id: ${event.id}\n`;
  return `${id}event: ${name}\ndata: ${JSON.stringify(event)}\n\n`;
}

/**
 * Parses a chunk that starts at the beginning of an event. It throws a SyntaxError if the data of a complete event is not an
 * object in JSON.
 */
export function parseSSEChunk(chunk: string): ParseResult {
  const result: ParseResult = { events: [], remainder: "" };
  let block: string[] = [];
  let end = 0; // of the last blank line
  // A CR at the end may be the first half of CRLF, so it ends no line yet.
  const lines = /([^\r\n]*)(?:\r\n|\n|\r(?!$))/gy;
  for (let line = lines.exec(chunk); line; line = lines.exec(chunk)) {
    if (line[1]) {
      block.push(line[1]);
      continue;
    }
    end = lines.lastIndex;
    interpret(block, result);
    block = [];
  }
  result.remainder = chunk.slice(end);
  return result;
}

// interpret adds what the lines of a block mean to the result.
function interpret(lines: string[], result: ParseResult): void {
  const data: string[] = [];
  let event = "message";
  let id: string | undefined;
  for (const line of lines) {
    const [, field = "", value = ""] = /^\uFEFF?([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === "data") data.push(value);
    else if (field === "event") event = value || "message";
    else if (field === "id" && !value.includes("\0")) id = value;
    else if (field === "retry" && /^\d{1,10}$/.test(value)) result.retry = Number(value);
  }
  if (data.length === 0) return;
  const parsed: ParsedEvent = { event, data: decode(data.join("\n")) };
  if (id !== undefined) parsed.id = id;
  result.events.push(parsed);
}

function decode(json: string): AgentEvent {
  const value: unknown = JSON.parse(json);
  if (typeof value !== "object" || value === null || typeof (value as { event?: unknown }).event !== "string") {
    throw new SyntaxError(`parse an event: ${json.slice(0, 80)} is not an object with the member "event"`);
  }
  return value as AgentEvent;
}
