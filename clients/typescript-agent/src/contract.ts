// The contract between agentbus and an agent over HTTP, version 1, as schemas/agent describes it.

/** The body of a turn. */
export interface TurnRequest {
  requestId: string;
  threadId: string;
  /** The agent's name in the configuration. */
  agentId: string;
  userId?: string;
  /** 1, and one more for each crash and each cut connection. From 2 on the turn may have been sent before. */
  attempt: number;
  /** The newest session that the agent has given on this thread. */
  session?: string;
  /** How many of the messages, from the first on, the agent has received in its session. */
  known: number;
  model?: string;
  system?: string;
  /** The whole conversation. It ends with a message of the user or with results of tools. */
  messages: TurnMessage[];
  /** What the agent may call by `tool_call`: agentbus, or the client, runs these calls. */
  tools: { name: string; description?: string; schema: Record<string, unknown>; client?: boolean }[];
  context?: Record<string, unknown>;
  options?: Record<string, unknown>;
  maxTokens?: number;
  limits?: { turns?: number; tokens?: number; costUsd?: number };
}

export interface TurnMessage {
  role: "user" | "assistant" | "tool";
  content: TurnPart[];
}

export type TurnPart =
  | { type: "text" | "thinking"; text: string }
  | { type: "image" | "file"; url?: string; data?: string; mediaType?: string; name?: string }
  | { type: "tool_call"; id: string; ref?: string; name: string; args: Record<string, unknown> }
  | ToolResult;

export type ToolStatus = "success" | "error" | "denied" | "aborted" | "unknown";

/** The result of a call. `ref` is the id that the agent gave the call. */
export interface ToolResult {
  type: "tool_result";
  id: string;
  ref?: string;
  name: string;
  status: ToolStatus;
  content: string;
  media?: Record<string, unknown>[];
}

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cachedInputTokens?: number;
  cacheWriteTokens?: number;
  reasoningTokens?: number;
  costUsd?: number;
}

/** A piece of an answer. The ids are the agent's own, one for each call of a turn. */
export type Chunk =
  | { type: "text" | "thinking"; delta: string }
  /** Calls a tool of the request. The turn ends after its calls, and the next turn has their results. */
  | { type: "tool_call"; id: string; name?: string; args?: Record<string, unknown>; delta?: string }
  /** Asks whether the agent may run a call by itself. The next turn has the decision as the result of the call. */
  | { type: "approval"; id: string; name: string; args?: Record<string, unknown> }
  /** Asks the user. The next turn has the answer as a result. */
  | { type: "question"; id: string; question: string }
  /** The agent runs a tool by itself. */
  | { type: "tool_started"; id: string; name: string; args?: Record<string, unknown> }
  | { type: "tool_progress"; id: string; delta: string }
  | { type: "tool_ended"; id: string; status?: ToolStatus; content?: string; summary?: string }
  /** The agent's model has ended a turn, and the agent continues. */
  | { type: "step"; usage?: Usage; model?: string }
  | { type: "plan"; steps: { content: string; done?: boolean }[] }
  | { type: "custom"; name: string; data?: Record<string, unknown> }
  | { type: "notice"; message: string }
  /** What the agent gets back with the next turn on the thread. */
  | { type: "session"; session: string }
  /** Ends the turn. Without it the answer ends with the last chunk. */
  | { type: "end"; finishReason?: string; usage?: Usage; model?: string }
  | { type: "error"; message: string; retryable?: boolean; usage?: Usage };
