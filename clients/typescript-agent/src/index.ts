// @agentbus/agent: serves an agent to agentbus. An agent is a function that yields the chunks of its answer to a turn; createHandler
// makes it a handler of fetch-style servers, and @agentbus/agent/node serves it in Node.js.
import { Webhook } from "standardwebhooks";
import type { Chunk, ToolResult, TurnRequest } from "./contract.js";

export type { Chunk, ToolResult, ToolStatus, TurnMessage, TurnPart, TurnRequest, Usage } from "./contract.js";

/** A turn: what agentbus sends, and what most agents need of it. */
export interface Turn extends TurnRequest {
  /** The text of the newest message of the user. */
  text: string;
  /** The results of the calls that the agent has made since then. */
  results: ToolResult[];
  /** Is aborted when agentbus closes the connection, because the request was aborted or has exceeded its time. */
  signal: AbortSignal;
}

/** An agent. A string is a piece of text; the answer ends with the function, unless it yields `end` or `error` before. */
export type Agent = (turn: Turn) => AsyncIterable<string | Chunk>;

/** An error whose message clients may read. The message of any other error is replaced. */
export class AgentError extends Error {
  override readonly name = "AgentError";
  /** Another attempt may succeed. */
  readonly retryable: boolean;

  constructor(message: string, options: { retryable?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable ?? false;
  }
}

export interface HandlerOptions {
  /** The key that signs the requests (`signingKeyEnv` of the agent in agentbus): `whsec_` and base64. Unsigned requests get 401. */
  signingKey?: string;
  /** How long an answer may be silent before an empty line shows that the agent works, in milliseconds. Default: 15 seconds. */
  heartbeat?: number;
  /** Is called with an error that is not an AgentError. Default: it is printed. */
  onError?: (error: unknown) => void;
  /** The largest body of a turn, in bytes. Default: 64 MiB. */
  maxBody?: number;
}

const version = "1";

/** Returns a handler of a server that takes a Request and returns a Response. */
export function createHandler(agent: Agent, options: HandlerOptions = {}): (request: Request) => Promise<Response> {
  const webhook = options.signingKey === undefined ? undefined : new Webhook(options.signingKey);
  return async (request) => {
    if (request.method !== "POST") return refuse(405, "send a turn by POST");
    const given = request.headers.get("Agentbus-Agent-Version");
    if (given !== version) return refuse(400, `version ${given} of the contract; this agent implements version ${version}`);
    const body = await readBody(request, options.maxBody ?? 64 << 20);
    if (body === undefined) return refuse(413, "the turn is too large");
    if (webhook && !isSigned(webhook, body, request.headers)) return refuse(401, "the signature is missing or not valid");
    const turn = parse(body);
    if (!turn) return refuse(400, "the body is not a turn");
    return new Response(answer(agent, turn, options), { headers: { "Content-Type": "application/x-ndjson", "Cache-Control": "no-store" } });
  };
}

function refuse(status: number, message: string): Response {
  return Response.json({ message }, { status });
}

// readBody returns undefined for a body that is too large.
async function readBody(request: Request, limit: number): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength;
    if (size > limit) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function isSigned(webhook: Webhook, body: string, headers: Headers): boolean {
  try {
    webhook.verify(body, Object.fromEntries(headers));
    return true;
  } catch {
    return false; // the library throws whatever is wrong with the signature
  }
}

function parse(body: string): TurnRequest | undefined {
  try {
    const turn = JSON.parse(body) as TurnRequest | null;
    return Array.isArray(turn?.messages) ? turn : undefined;
  } catch {
    return undefined; // not JSON
  }
}

// answer is the stream of an agent's chunks, as lines of JSON. Its cancellation ends the agent.
function answer(agent: Agent, request: TurnRequest, options: HandlerOptions): ReadableStream<Uint8Array> {
  const stop = new AbortController();
  const encoder = new TextEncoder();
  let heartbeat: ReturnType<typeof setInterval>;
  let lines: AsyncGenerator<string>;
  return new ReadableStream(
    {
      start(controller) {
        lines = answerLines(agent, { ...request, ...newest(request), signal: stop.signal }, options);
        heartbeat = setInterval(() => controller.enqueue(encoder.encode("\n")), options.heartbeat ?? 15_000);
      },
      async pull(controller) {
        const { value, done } = await lines.next();
        if (stop.signal.aborted) return;
        if (!done) {
          controller.enqueue(encoder.encode(value));
          return;
        }
        clearInterval(heartbeat);
        controller.close();
      },
      cancel(reason) {
        clearInterval(heartbeat);
        stop.abort(reason);
        lines.return(undefined).catch(() => {}); // what the agent throws now has no reader
      },
    },
    { highWaterMark: 0 },
  );
}

async function* answerLines(agent: Agent, turn: Turn, options: HandlerOptions): AsyncGenerator<string> {
  try {
    for await (const item of agent(turn)) {
      const chunk: Chunk = typeof item === "string" ? { type: "text", delta: item } : item;
      yield line(chunk);
      if (chunk.type === "end" || chunk.type === "error") return;
    }
    yield line({ type: "end" });
  } catch (error) {
    if (turn.signal.aborted) return;
    yield line(failure(error, options));
  }
}

const line = (chunk: Chunk) => `${JSON.stringify(chunk)}\n`;

function failure(error: unknown, { onError = console.error }: HandlerOptions): Chunk {
  if (error instanceof AgentError) return { type: "error", message: error.message, retryable: error.retryable };
  onError(error);
  return { type: "error", message: "internal error", retryable: false };
}

// newest returns the text of the newest message of the user, and the results that follow it.
function newest({ messages }: TurnRequest): Pick<Turn, "text" | "results"> {
  const at = messages.findLastIndex((message) => message.role === "user");
  const text = (messages[at]?.content ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
  const results = messages.slice(at + 1).flatMap((message) => message.content.filter((part) => part.type === "tool_result"));
  return { text, results };
}
