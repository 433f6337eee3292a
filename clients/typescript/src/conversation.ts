// The fold of a thread's events into what a screen shows. It is a pure function, for any framework.
import type { AgentEvent, ContinuationEvent, ErrorEvent, InputEvent, TextEvent, ThinkingEvent, ToolCallEvent, ToolResultEvent } from "./types.js";

/** A piece of an answer. */
export type Part =
  | { type: "text"; id: string; text: string }
  | { type: "thinking"; id: string; thinking: string }
  | ToolPart;

export interface ToolPart {
  type: "tool_call";
  id: string;
  toolCallId: string;
  name: string;
  /** The JSON text of the arguments, as far as it has come. */
  argsText: string;
  /** The arguments, when they are complete. */
  args?: Record<string, unknown>;
  /** Of the result, when the call has ended. */
  status?: NonNullable<ToolResultEvent["status"]>;
  summary?: string;
}

/** A message of a conversation. */
export type ConversationMessage =
  | { role: "user"; id: string; requestId: string; content: InputEvent["messages"][number]["content"] }
  | { role: "assistant"; id: string; requestId: string; parts: Part[] };

export interface Conversation {
  messages: ConversationMessage[];
  /** What the newest request does: `action_required` means that it has ended and waits for `actions`. */
  status: "idle" | "running" | "action_required" | "error" | "aborted";
  requestId?: string;
  /** The open actions. */
  actions: ContinuationEvent[];
  /** Why the newest request failed. */
  error?: ErrorEvent;
}

/** A conversation without messages. */
export const emptyConversation: Conversation = { messages: [], status: "idle", actions: [] };

/** Returns the conversation after an event. Events must come in order, with `input` events among them to show users' messages. */
export function applyEvent(conversation: Conversation, event: AgentEvent): Conversation {
  switch (event.event) {
    case "input":
      return withInput(conversation, event);
    case "metadata":
      return running(conversation, event.requestId);
    case "text":
    case "thinking":
    case "tool_call":
      return withParts(conversation, event.requestId, (parts) => withBlock(parts, event));
    case "tool_result":
      return event.stage === "stop" ? withResult(conversation, event) : conversation;
    case "continuation":
      return { ...conversation, actions: [...conversation.actions, event] };
    case "done":
      return event.finishReason === "action_required"
        ? { ...conversation, status: "action_required" }
        : { ...conversation, status: "idle", actions: [] };
    case "error":
      return { ...conversation, status: "error", actions: [], error: event };
    case "aborted":
      return { ...conversation, status: "aborted", actions: [] };
    default:
      return conversation;
  }
}

function withInput(conversation: Conversation, { messages, requestId, steerId, id = "" }: InputEvent): Conversation {
  const said = messages.map(({ content }, i) => ({ role: "user" as const, id: `${requestId}.${id}.${i}`, requestId, content }));
  const next = { ...conversation, messages: [...conversation.messages, ...said] };
  return steerId === undefined ? running(next, requestId) : next;
}

// running begins a request, whose actions replace those of the request before it.
function running({ messages }: Conversation, requestId: string): Conversation {
  return { messages, status: "running", requestId, actions: [] };
}

// withParts changes the answer of a request. A steer divides the answer into two messages.
function withParts(conversation: Conversation, requestId: string, change: (parts: Part[]) => Part[]): Conversation {
  const messages = [...conversation.messages];
  const last = messages.at(-1);
  if (last?.role === "assistant" && last.requestId === requestId) {
    messages[messages.length - 1] = { ...last, parts: change(last.parts) };
  } else {
    messages.push({ role: "assistant", id: `${requestId}.${messages.length}`, requestId, parts: change([]) });
  }
  return { ...conversation, messages };
}

function withBlock(parts: Part[], event: TextEvent | ThinkingEvent | ToolCallEvent): Part[] {
  if (event.stage === "start") return [...parts, newPart(event)];
  if (event.stage === "stop" && event.discarded) return parts.filter((part) => part.id !== event.blockId);
  return parts.map((part) => (part.id === event.blockId ? changed(part, event) : part));
}

function newPart(event: TextEvent | ThinkingEvent | ToolCallEvent): Part {
  const id = event.blockId;
  if (event.event === "text") return { type: "text", id, text: "" };
  if (event.event === "thinking") return { type: "thinking", id, thinking: "" };
  return { type: "tool_call", id, toolCallId: event.toolCallId, name: event.name ?? "", argsText: "" };
}

function changed(part: Part, event: TextEvent | ThinkingEvent | ToolCallEvent): Part {
  const delta = (event.stage === "delta" && event.delta) || "";
  if (part.type === "text") return { ...part, text: (event.event === "text" && event.stage === "stop" && event.text) || part.text + delta };
  if (part.type === "thinking") return { ...part, thinking: part.thinking + delta };
  const args = event.event === "tool_call" && event.stage === "stop" ? event.args : undefined;
  return { ...part, argsText: part.argsText + delta, ...(args && { args }) };
}

// withResult completes a call. That of an approved call comes with the request that answers the action.
function withResult(conversation: Conversation, { toolCallId, status, summary }: ToolResultEvent): Conversation {
  const complete = (part: Part): Part =>
    part.type === "tool_call" && part.toolCallId === toolCallId ? { ...part, ...(status && { status }), ...(summary && { summary }) } : part;
  const messages = conversation.messages.map((message) =>
    message.role === "assistant" ? { ...message, parts: message.parts.map(complete) } : message,
  );
  return { ...conversation, messages };
}
