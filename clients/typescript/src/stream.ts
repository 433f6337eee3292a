import { Backoff } from "./backoff.js";
import { ApiError, ConnectionError, isTemporary, ProtocolError } from "./error.js";
import { type Call, type Http, startAttempts } from "./http.js";
import { parseSSEChunk, type ParsedEvent } from "./sse.js";
import type { AgentEvent, ContinuationEvent } from "./types.js";
import type { Include } from "./constants.js";

export interface StreamOptions {
  /** The events to receive in addition to the nine of the agent event protocol. */
  include?: readonly Include[];
  /** Ends the stream: the iteration throws the signal's reason. The request runs on; `abort` of the client ends it. */
  signal?: AbortSignal;
  /**
   * Is called when the server cannot use the cursor, after a loss of data: the stream starts again at the first event, so clear
   * what was shown. Without it such a stream throws a ProtocolError.
   */
  onReset?: () => void;
}

/** What a stream is a stream of. */
export interface Source {
  /** The request that starts it, until the server has accepted it. */
  start?: Call;
  /** The path that resumes it. A stream that is started has it after the response. */
  path?: string;
  /** It follows a thread, which has no terminal event. */
  thread?: boolean;
  query?: Record<string, string | undefined>;
  requestId?: string;
  threadId?: string;
  cursor?: string;
}

const maxEvent = 8 << 20; // characters that may wait for the end of an event
const terminal: ReadonlySet<string> = new Set(["done", "error", "aborted"]);

/**
 * The events of a request, up to its terminal event, or of a thread, until it is deleted. Each is yielded once, in order; a cut
 * connection is resumed. If the iteration is left, a second one continues after the last event.
 */
export class EventStream implements AsyncIterable<AgentEvent> {
  /** The request, once the server has accepted it. Of a thread: the request of the last event. */
  requestId: string | undefined;
  threadId: string | undefined;
  /** The position of the last event, to follow the stream after it later. */
  cursor: string | undefined;
  /** The actions that the newest request of the stream waits for. */
  actions: ContinuationEvent[] = [];

  private readonly http: Http;
  private readonly source: Source;
  private readonly options: StreamOptions;
  private readonly backoff = new Backoff();
  private last: string | undefined; // the cursor up to which events are not yielded again
  private connected = false; // a connection was established
  private received = false; // an event has come
  private progress = false; // since the last failure
  private iterating = false;
  private ended = false;

  constructor(http: Http, source: Source, options: StreamOptions) {
    this.http = http;
    this.source = source;
    this.options = options;
    this.requestId = source.requestId;
    this.threadId = source.threadId;
    this.cursor = source.cursor;
    this.last = source.cursor !== undefined && position(source.cursor) ? source.cursor : undefined;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AgentEvent, void, undefined> {
    if (this.iterating) throw new Error("iterate a stream: another iteration of it has not ended; follow the request again");
    this.iterating = true;
    try {
      while (!this.ended) {
        try {
          yield* this.connection();
        } catch (error) {
          await this.recover(error);
        }
      }
    } finally {
      this.iterating = false;
    }
  }

  // recover waits before the next connection. It throws an error that another connection would not repair.
  private async recover(error: unknown): Promise<void> {
    const { signal } = this.options;
    signal?.throwIfAborted();
    if (this.source.thread && this.connected && error instanceof ApiError && error.code === "thread_not_found") {
      this.ended = true; // the thread was deleted
      return;
    }
    if (this.progress) this.backoff.reset();
    this.progress = false;
    const attempts = this.source.path === undefined ? startAttempts : this.http.attempts;
    if (isTemporary(error) && (await this.backoff.pause(error, attempts, signal))) return;
    signal?.throwIfAborted();
    if (error instanceof ApiError || error instanceof ProtocolError) throw error;
    throw new ConnectionError(this.http.base, error, this.requestId, this.cursor);
  }

  // connection yields the events of one connection. It returns after the terminal event, and throws if the connection ends earlier.
  private async *connection(): AsyncGenerator<AgentEvent, void, undefined> {
    const connection = await this.http.open(this.call());
    try {
      if (this.accept(connection.response)) return;
      let remainder = "";
      for await (const text of connection.text()) {
        const chunk = this.parse(remainder + text);
        for (const event of chunk.events) {
          if (!this.take(event)) continue;
          yield event.data;
          if (this.ended) return;
        }
        remainder = chunk.remainder;
        if (remainder.length > maxEvent) throw new ProtocolError(`an event of the stream is longer than ${maxEvent} characters`);
        if (chunk.retry !== undefined) this.backoff.suggested = chunk.retry;
      }
      throw new Error("the connection was cut before the end of the stream");
    } finally {
      connection.close();
    }
  }

  private call(): Call {
    const { source, options } = this;
    const from: Call = source.path !== undefined ? { path: source.path } : source.start!;
    return {
      ...from,
      query: { ...source.query, ...from.query, include: options.include?.join(",") },
      headers: { ...from.headers, Accept: "text/event-stream", ...(this.cursor && { "Last-Event-ID": this.cursor }) },
      ...(options.signal && { signal: options.signal }),
    };
  }

  // accept reads the headers of a response. It reports whether the stream has no further event.
  private accept({ status, headers }: Response): boolean {
    if (status === 204) {
      if (this.received) throw new ProtocolError("the server reports the end of the request, and has not sent its terminal event");
      this.ended = true;
      return true;
    }
    if (!headers.get("Content-Type")?.startsWith("text/event-stream")) {
      throw new ProtocolError(`the response is not a stream of events; is ${this.http.base} an agentbus gateway?`);
    }
    this.connected = true;
    if (this.source.thread) {
      this.progress = true; // a thread may be silent for longer than a connection lasts
      this.cursor ??= headers.get("X-Stream-Start") ?? undefined;
    } else {
      this.requestId ??= headers.get("X-Request-Id") ?? undefined;
      this.threadId ??= headers.get("X-Thread-Id") ?? undefined;
      if (this.requestId) this.source.path = requestPath(this.requestId);
    }
    if (headers.has("X-Stream-Reset")) this.reset();
    return false;
  }

  private reset(): void {
    if (!this.options.onReset) {
      throw new ProtocolError(`the server has no event ${this.cursor} any more; follow from the start, or handle onReset`);
    }
    this.last = undefined;
    this.actions = [];
    this.options.onReset();
  }

  private parse(text: string) {
    try {
      return parseSSEChunk(text);
    } catch (error) {
      throw new ProtocolError(error instanceof Error ? error.message : String(error));
    }
  }

  // take updates the state of the stream. It returns false for an event that was received before.
  private take({ id, data: event }: ParsedEvent): boolean {
    const cursor = this.source.thread ? id : (event.id ?? id);
    if (cursor === undefined) throw new ProtocolError(`the event ${event.event} has no id`);
    if (this.last !== undefined && !isAfter(cursor, this.last)) return false;
    this.cursor = this.last = cursor;
    this.received = this.progress = true;
    this.requestId = event.requestId;
    this.source.path ??= requestPath(event.requestId);
    if (event.event === "metadata") {
      this.threadId = event.threadId;
      this.actions = [];
    } else if (event.event === "continuation") {
      this.actions.push(event);
    } else if (terminal.has(event.event)) {
      if (event.event !== "done" || event.finishReason !== "action_required") this.actions = [];
      this.ended = !this.source.thread;
    }
    return true;
  }
}

/** The path of a request's stream. */
export const requestPath = (requestId: string) => `/v1/requests/${encodeURIComponent(requestId)}/stream`;

// isAfter compares the ids of events, <incarnation>-<n> or <incarnation>-<index>.<n>. Those of another incarnation are those of
// another log.
function isAfter(cursor: string, last: string): boolean {
  const at = position(cursor);
  if (!at) throw new ProtocolError(`${JSON.stringify(cursor)} is not the id of an event`);
  const [incarnation, index, n] = at;
  const [lastIncarnation, lastIndex, lastN] = position(last)!;
  return incarnation !== lastIncarnation || index > lastIndex || (index === lastIndex && n > lastN);
}

// position returns undefined for a cursor that is not the id of an event, such as the start of a thread's stream.
function position(cursor: string): [incarnation: string, index: number, n: number] | undefined {
  const [, incarnation, index = "0", n] = /^([a-z0-9]+)-(?:(\d+)\.)?(\d+)$/.exec(cursor) ?? [];
  return incarnation === undefined ? undefined : [incarnation, Number(index), Number(n)];
}
