import type { Include } from "./constants.js";
import { type Call, type ClientOptions, Http, newKey } from "./http.js";
import { EventStream, requestPath, type StreamOptions } from "./stream.js";
import type { ActionResult, AgentEvent, AgentRequest, ContinuationEvent, InputMessage } from "./types.js";
import type { ActionPage, Agent, EventPage, MessagePage, RequestState, Started, Thread, ThreadPage } from "./api.js";

export interface StartOptions {
  /** Makes repeated calls with the same request give the same run. Without it, only the client's own attempts do. */
  idempotencyKey?: string;
  /** Lets the caller choose the id of a new thread: if `threadId` names no thread, the request creates it. */
  createThread?: boolean;
  signal?: AbortSignal;
}

/** What a client does about an action: the status `success`, `denied` or `error`, with a result or the text of an error. */
export type Decision = Omit<ActionResult, "actionId">;

export interface RunOptions extends StreamOptions, StartOptions {
  /** Decides an action: shows it to the user, or runs the client tool `payload.name`. */
  decide: (action: ContinuationEvent) => Decision | Promise<Decision>;
}

export interface Page {
  limit?: number;
  /** `nextCursor` of the page before. */
  cursor?: string;
}

/** What identifies an action: a `continuation` event, or an item of `actions`. */
export interface ActionRef {
  actionId: string;
  requestId: string;
}

const segment = encodeURIComponent;

/** A client of one gateway. */
export class AgentClient {
  private readonly http: Http;

  /** `url` is the gateway's address, for example `http://127.0.0.1:8080`. */
  constructor(url: string, options: ClientOptions = {}) {
    this.http = new Http(url, options);
  }

  /** Starts a request when the stream is iterated, and yields its events up to the terminal one. */
  stream(agent: string, request: AgentRequest, options: StreamOptions & StartOptions = {}): EventStream {
    return new EventStream(this.http, { start: startCall(agent, "stream", request, options) }, options);
  }

  /** Yields the events of a request that was started elsewhere, from the start or after a cursor. */
  follow(requestId: string, options: StreamOptions & { after?: string } = {}): EventStream {
    return new EventStream(this.http, { path: requestPath(requestId), requestId, ...(options.after && { cursor: options.after }) }, options);
  }

  /**
   * Yields the events of a thread, request after request, until the thread is deleted; `input` events are among them. It begins
   * with the request that runs or comes next, or with `fromStart` at the first one, or after a cursor of such a stream.
   */
  followThread(threadId: string, options: StreamOptions & { after?: string; fromStart?: boolean } = {}): EventStream {
    const source = {
      thread: true,
      threadId,
      path: `/v1/threads/${segment(threadId)}/stream`,
      ...(options.after && { cursor: options.after }),
      ...(options.fromStart && { query: { from: "start" } }),
    };
    return new EventStream(this.http, source, options);
  }

  /** Runs a request, and the requests that answer its actions, until one ends without an action. */
  async *run(agent: string, request: AgentRequest, { decide, idempotencyKey, ...options }: RunOptions): AsyncGenerator<AgentEvent> {
    let stream = this.stream(agent, request, { ...options, ...(idempotencyKey && { idempotencyKey }) });
    for (;;) {
      yield* stream;
      if (stream.actions.length === 0) return;
      const actionResults: ActionResult[] = [];
      for (const action of stream.actions) actionResults.push({ actionId: action.actionId, ...(await decide(action)) });
      stream = this.stream(agent, { threadId: stream.threadId!, messages: [], context: { actionResults } }, options);
    }
  }

  /** Starts a request in the background, and returns when the server has accepted it. `follow` shows its events. */
  start(agent: string, request: AgentRequest, options: StartOptions = {}): Promise<Started> {
    return this.http.json(startCall(agent, "requests", request, options));
  }

  /** Starts a request of the same agent on the thread of a request, after all that runs or waits there. */
  followUp(requestId: string, request: Omit<AgentRequest, "threadId">, options: Omit<StartOptions, "createThread"> = {}): Promise<Started> {
    return this.http.json({ ...post(`/v1/requests/${segment(requestId)}/follow-up`, request, options.idempotencyKey), ...signalOf(options) });
  }

  /** Returns the state of a request. */
  request(requestId: string): Promise<RequestState> {
    return this.http.json({ path: `/v1/requests/${segment(requestId)}` });
  }

  /** Asks for the end of a request, whose last event is then `aborted`. It throws `request_finished` if the request has ended. */
  async abort(requestId: string, reason?: string): Promise<void> {
    await this.http.json(post(`/v1/requests/${segment(requestId)}/abort`, reason === undefined ? {} : { reason }));
  }

  /** Sends a message to a running request, which the model reads before its next turn. Returns the `steerId` of its `input` event. */
  async steer(requestId: string, message: string | InputMessage): Promise<string> {
    const messages = [typeof message === "string" ? { role: "user", content: message } : message];
    const { steerId } = await this.http.json<{ steerId: string }>(post(`/v1/requests/${segment(requestId)}/steer`, { messages }));
    return steerId;
  }

  /** Allows a call that needs an approval. Returns the request that continues. */
  approve(action: ActionRef): Promise<Started> {
    return this.resolve(action.requestId, [{ actionId: action.actionId, status: "success" }]);
  }

  /** Refuses an action. The model reads the reason. */
  deny(action: ActionRef, reason?: string): Promise<Started> {
    const error = reason === undefined ? {} : { error: reason };
    return this.resolve(action.requestId, [{ actionId: action.actionId, status: "denied", ...error }]);
  }

  /** Answers a question, or returns the result of a client tool: any JSON. */
  answer(action: ActionRef, result: unknown): Promise<Started> {
    return this.resolve(action.requestId, [{ actionId: action.actionId, status: "success", result }]);
  }

  /** Resolves several actions of a request at once. Returns the request that continues. */
  async resolve(requestId: string, actionResults: ActionResult[]): Promise<Started> {
    const { agentId, threadId } = await this.request(requestId);
    return this.start(agentId, { threadId, messages: [], context: { actionResults } });
  }

  /** Lists the caller's open actions. Only an absent `nextCursor` marks the last page; a page may be empty. */
  actions(query: Page & { threadId?: string; agentId?: string } = {}): Promise<ActionPage> {
    return this.http.json({ path: "/v1/actions", query: { ...query } });
  }

  /** Lists the agents, by name. */
  async agents(): Promise<Agent[]> {
    return (await this.http.json<{ agents: Agent[] }>({ path: "/v1/agents" })).agents;
  }

  /** Lists the caller's threads, the newest change first. */
  threads(page: Page = {}): Promise<ThreadPage> {
    return this.http.json({ path: "/v1/threads", query: { ...page } });
  }

  /** Returns a thread. */
  thread(threadId: string): Promise<Thread> {
    return this.http.json({ path: `/v1/threads/${segment(threadId)}` });
  }

  /** Lists the messages of a thread, in order. The limit counts requests. */
  messages(threadId: string, page: Page = {}): Promise<MessagePage> {
    return this.http.json({ path: `/v1/threads/${segment(threadId)}/messages`, query: { ...page } });
  }

  /** Yields the stored events of a thread, those of all pages. */
  async *events(threadId: string, query: { type?: AgentEvent["event"][]; include?: Include[]; since?: Date; until?: Date } = {}): AsyncGenerator<AgentEvent> {
    let cursor: string | undefined;
    do {
      const page: EventPage = await this.http.json({
        path: `/v1/threads/${segment(threadId)}/events`,
        query: {
          type: query.type?.join(","),
          include: query.include?.join(","),
          since: query.since?.toISOString(),
          until: query.until?.toISOString(),
          limit: 1000,
          cursor,
        },
      });
      yield* page.events;
      cursor = page.nextCursor;
    } while (cursor);
  }

  /** Deletes a thread with all its requests. */
  async deleteThread(threadId: string): Promise<void> {
    await this.http.json({ method: "DELETE", path: `/v1/threads/${segment(threadId)}` });
  }
}

function startCall(agent: string, route: "stream" | "requests", request: AgentRequest, options: StartOptions): Call {
  const call = post(`/v1/agents/${segment(agent)}/${route}`, request, options.idempotencyKey);
  return { ...call, ...signalOf(options), ...(options.createThread && { query: { createThread: "true" } }) };
}

// post is a call with one idempotency key for all its attempts, so that it takes effect once.
function post(path: string, body: unknown, key = newKey()): Call {
  return { method: "POST", path, body, headers: { "Idempotency-Key": key } };
}

const signalOf = ({ signal }: { signal?: AbortSignal }) => (signal ? { signal } : {});
