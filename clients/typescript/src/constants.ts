/** The version of the agent event protocol. Additive changes keep it. */
export const PROTOCOL_VERSION = "1.0";

/** The events of the agent event protocol, which each client receives. */
export const EVENT_TYPES = [
  "metadata",
  "text",
  "thinking",
  "tool_call",
  "tool_result",
  "done",
  "error",
  "aborted",
  "continuation",
] as const;

/** The events that a client receives if it includes them. */
export const EXTENDED_EVENT_TYPES = [
  "input",
  "claim",
  "plan",
  "notice",
  "final_answer",
  "usage",
  "custom",
  "context_compressed",
  "subagent",
  "tool_output",
] as const;

/** What `include` accepts: `"extended"` stands for all of them except `tool_output`. */
export type Include = "extended" | (typeof EXTENDED_EVENT_TYPES)[number];
