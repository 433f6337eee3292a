// @agentbus/client: the agent event protocol, and a client of agentbus that receives each event once. It uses fetch and web
// streams alone, so that it works in browsers, Node.js and other runtimes.
export { PROTOCOL_VERSION, EVENT_TYPES, EXTENDED_EVENT_TYPES, type Include } from "./constants.js";
export { encodeSSE, parseSSEChunk, type ParsedEvent, type ParseResult } from "./sse.js";
export * from "./schemas.js";
export type * from "./types.js";
export type * from "./api.js";
export { AgentClient, type ActionRef, type Decision, type Page, type RunOptions, type StartOptions } from "./client.js";
export type { ClientOptions } from "./http.js";
export { type EventStream, type StreamOptions } from "./stream.js";
export { ApiError, ConnectionError, ProtocolError } from "./error.js";
export {
  applyEvent,
  emptyConversation,
  type Conversation,
  type ConversationMessage,
  type Part,
  type ToolPart,
} from "./conversation.js";
