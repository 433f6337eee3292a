// Hooks for React.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { ActionRef, AgentClient } from "./client.js";
import { applyEvent, type Conversation, emptyConversation } from "./conversation.js";
import type { ActionResult, AgentEvent, AgentRequest, InputMessage } from "./types.js";

export interface ThreadState extends Conversation {
  /** The connection has failed for good, and the conversation is no longer current. */
  failure?: unknown;
}

export interface ThreadHookOptions {
  /** Is called with each event, for what the conversation does not contain. */
  onEvent?: (event: AgentEvent) => void;
}

/** Follows a thread, those of its requests that others start too, from its first message. Without a thread it is empty. */
export function useThread(client: AgentClient, threadId: string | undefined, { onEvent }: ThreadHookOptions = {}): ThreadState {
  const [state, setState] = useState<ThreadState>(emptyConversation);
  const listener = useRef(onEvent); // a new function of each rendering must not start the stream again
  useEffect(() => {
    listener.current = onEvent;
  }, [onEvent]);
  useEffect(() => {
    setState(emptyConversation);
    if (threadId === undefined) return undefined;
    const stop = new AbortController();
    const events = client.followThread(threadId, { fromStart: true, signal: stop.signal, onReset: () => setState(emptyConversation) });
    void (async () => {
      try {
        for await (const event of events) {
          setState((before) => applyEvent(before, event));
          listener.current?.(event);
        }
      } catch (failure) {
        if (!stop.signal.aborted) setState((before) => ({ ...before, failure }));
      }
    })();
    return () => stop.abort();
  }, [client, threadId]);
  return state;
}

export interface AgentHookOptions extends ThreadHookOptions {
  /** The thread to continue. Without it the first message begins one, and `threadId` of the result names it. */
  threadId?: string;
}

export interface AgentState extends ThreadState {
  threadId: string | undefined;
  /** Sends a message. It resolves when the server has accepted the request, whose events then change the state. */
  send: (message: string | InputMessage, request?: Omit<AgentRequest, "messages" | "threadId">) => Promise<void>;
  approve: (action: ActionRef) => Promise<void>;
  deny: (action: ActionRef, reason?: string) => Promise<void>;
  answer: (action: ActionRef, result: unknown) => Promise<void>;
  resolve: (results: ActionResult[]) => Promise<void>;
  /** Sends a message to the running request. */
  steer: (message: string) => Promise<void>;
  /** Ends the running request. */
  abort: (reason?: string) => Promise<void>;
}

/** A conversation with an agent. It continues after a reload of the page if the page keeps `threadId`. */
export function useAgent(client: AgentClient, agent: string, options: AgentHookOptions = {}): AgentState {
  const [created, setCreated] = useState<string>();
  const threadId = options.threadId ?? created;
  const state = useThread(client, threadId, options);
  const { requestId } = state;
  const send = useCallback<AgentState["send"]>(
    async (message, request) => {
      const messages: InputMessage[] = [typeof message === "string" ? { role: "user", content: message } : message];
      const started = await client.start(agent, { ...request, messages, ...(threadId !== undefined && { threadId }) });
      setCreated(started.threadId);
    },
    [client, agent, threadId],
  );
  const calls = useMemo(() => {
    const current = () => {
      if (requestId === undefined) throw new Error("the conversation has no request yet");
      return requestId;
    };
    return {
      approve: async (action: ActionRef) => void (await client.approve(action)),
      deny: async (action: ActionRef, reason?: string) => void (await client.deny(action, reason)),
      answer: async (action: ActionRef, result: unknown) => void (await client.answer(action, result)),
      resolve: async (results: ActionResult[]) => void (await client.resolve(current(), results)),
      steer: async (message: string) => void (await client.steer(current(), message)),
      abort: async (reason?: string) => client.abort(current(), reason),
    };
  }, [client, requestId]);
  return { ...state, threadId, send, ...calls };
}
