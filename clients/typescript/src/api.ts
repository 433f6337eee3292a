// The responses of the gateway, as schemas/openapi.yaml describes them.
import type { AgentEvent, AssistantContentBlock, ContinuationEvent, FinishReason, InputEvent, Usage } from "./types.js";

/** `queued`: no runner has claimed the request yet. */
export type Status = "queued" | "running" | "done" | "error" | "aborted";

export interface Agent {
  name: string;
  description?: string;
  backend: string;
  model?: string;
  /** The models that a request may select; "*" stands for any. */
  models?: string[];
  tools?: string[];
  capabilities?: string[];
  /** Whether a remote agent can be reached. */
  online?: boolean;
}

/** A request that was accepted. */
export interface Started {
  requestId: string;
  threadId: string;
  agentId: string;
  status: Status;
}

export interface RequestState extends Started {
  owner: string;
  /** On its thread, from 0. */
  index: number;
  createdAt: string;
  endedAt?: string;
  usage?: Usage;
  terminal?: AgentEvent;
  /** The steers that the request did not read before it ended. */
  unreadSteers?: string[];
}

export interface OpenAction {
  actionId: string;
  kind: ContinuationEvent["kind"];
  expiresAt?: string;
}

export interface Thread {
  threadId: string;
  agentId: string;
  owner: string;
  title?: string;
  requests: number;
  lastRequestId?: string;
  createdAt: string;
  updatedAt: string;
  openActions?: OpenAction[];
}

export interface ThreadPage {
  threads: Thread[];
  nextCursor?: string;
}

/** A message of a thread: `input` is what a user said, `content` what an agent said. */
export interface Message {
  requestId: string;
  messageId?: string;
  role: "user" | "assistant";
  input?: InputEvent["messages"][number]["content"];
  content?: AssistantContentBlock[];
  finishReason?: FinishReason;
  at: string;
}

export interface MessagePage {
  messages: Message[];
  nextCursor?: string;
}

export interface EventPage {
  events: AgentEvent[];
  nextCursor?: string;
}

/** An open action of a thread. */
export interface Action extends OpenAction {
  threadId: string;
  requestId: string;
  agentId: string;
  payload: ContinuationEvent["payload"];
  at: string;
}

export interface ActionPage {
  actions: Action[];
  nextCursor?: string;
}
