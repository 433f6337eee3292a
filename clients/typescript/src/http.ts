// HTTP calls of the gateway: headers, silence that counts as a cut connection, errors, and attempts that count as one.
import { Backoff } from "./backoff.js";
import { ApiError, ConnectionError, isTemporary, ProtocolError, readError } from "./error.js";

export interface ClientOptions {
  /** The API key, sent as `Authorization: Bearer`. A page must not contain the key of a server: see docs/frontend.md. */
  apiKey?: string;
  /** Further headers of each call, such as those of a proxy. */
  headers?: Record<string, string>;
  /** How long a connection may be silent before it counts as cut, in milliseconds. A gateway sends a heartbeat every 15 s. */
  idleTimeout?: number;
  /** How often in a row a cut stream is resumed in vain before the client gives up. */
  attempts?: number;
  /** Replaces the global fetch. */
  fetch?: typeof fetch;
}

export interface Call {
  method?: string;
  path: string;
  query?: Record<string, string | number | undefined>;
  headers?: Record<string, string>;
  body?: unknown;
  signal?: AbortSignal;
}

/** How often a request is sent before the server has accepted it, so that an unreachable server is reported soon. */
export const startAttempts = 3;

/** Calls one gateway. */
export class Http {
  readonly base: string;
  readonly attempts: number;
  private readonly options: ClientOptions;

  constructor(url: string, options: ClientOptions) {
    if (!/^https?:\/\//.test(url)) throw new TypeError(`address of the gateway ${JSON.stringify(url)}: write one such as http://127.0.0.1:8080`);
    this.base = url.replace(/\/+$/, "");
    this.attempts = options.attempts ?? 10;
    this.options = options;
  }

  /** Opens a connection. The caller ends it with `close`. An error status is an ApiError. */
  async open(call: Call): Promise<Connection> {
    const connection = new Connection(this.options.idleTimeout ?? 60_000, call.signal);
    try {
      connection.response = await (this.options.fetch ?? fetch)(this.address(call), {
        method: call.method ?? "GET",
        headers: this.headers(call),
        cache: "no-store",
        signal: connection.signal,
        ...(call.body !== undefined && { body: JSON.stringify(call.body) }),
      });
      if (isCut(connection.response)) throw new Error("the connection was cut within the headers");
      if (connection.response.status >= 400) throw await readError(connection.response);
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  /** Returns the JSON of a response, undefined without a body. Temporary errors are retried. */
  async json<T>(call: Call): Promise<T> {
    const backoff = new Backoff();
    for (;;) {
      try {
        return await this.exchange<T>(call);
      } catch (error) {
        call.signal?.throwIfAborted();
        if (isTemporary(error) && (await backoff.pause(error, startAttempts, call.signal))) continue;
        call.signal?.throwIfAborted();
        throw error instanceof ApiError || error instanceof ProtocolError ? error : new ConnectionError(this.base, error);
      }
    }
  }

  private async exchange<T>(call: Call): Promise<T> {
    const connection = await this.open(call);
    try {
      const text = await connection.response.text();
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw new ProtocolError(`the response to ${call.path} is not JSON; is ${this.base} an agentbus gateway?`);
    } finally {
      connection.close();
    }
  }

  private address({ path, query = {} }: Call): string {
    const values = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
    const search = new URLSearchParams(values.map(([name, value]) => [name, String(value)])).toString();
    return `${this.base}${path}${search && `?${search}`}`;
  }

  private headers(call: Call): Record<string, string> {
    const { apiKey, headers } = this.options;
    return {
      Accept: "application/json",
      ...(call.body !== undefined && { "Content-Type": "application/json" }),
      ...(apiKey !== undefined && { Authorization: `Bearer ${apiKey}` }),
      ...headers,
      ...call.headers,
    };
  }
}

// isCut reports whether headers are missing. Chromium returns those that came before a cut as if they were all.
function isCut({ status, headers }: Response): boolean {
  return status !== 204 && !headers.has("Content-Type") && headers.get("Content-Length") !== "0";
}

/** One connection. It ends when the caller's signal is aborted, or when it was silent for too long. */
export class Connection {
  response!: Response; // set by Http.open before a caller has the connection
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly idle: number;
  private readonly parent: AbortSignal | undefined;
  private readonly onAbort = () => this.controller.abort(this.parent?.reason);

  constructor(idle: number, parent?: AbortSignal) {
    this.idle = idle;
    this.parent = parent;
    parent?.throwIfAborted();
    parent?.addEventListener("abort", this.onAbort);
    this.alive();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Notes that data came. */
  alive(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.controller.abort(new Error(`the connection was silent for ${this.idle} ms`)), this.idle);
  }

  /** Yields the text of the response as it comes. */
  async *text(): AsyncGenerator<string> {
    const reader = this.response.body!.getReader();
    const decoder = new TextDecoder();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.alive();
      yield decoder.decode(value, { stream: true });
    }
  }

  close(): void {
    clearTimeout(this.timer);
    this.parent?.removeEventListener("abort", this.onAbort);
    this.controller.abort();
  }
}

/** A new idempotency key: a UUIDv7, whose time tells the server that it cannot be an old one. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID needs a secure context
  new DataView(bytes.buffer).setBigUint64(0, (BigInt(Date.now()) << 16n) | 0x7000n | BigInt(bytes[7]! << 4 | bytes[6]! >> 4));
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
