import type { components } from "./schema";

type AgentEvent = components["schemas"]["Event"];

export function show(event: AgentEvent): string {
  switch (event.event) {
    case "text":
      return event.delta ?? event.text ?? "";
    case "tool_call":
      return `${event.toolCallId} ${event.name ?? ""}`;
    case "plan":
      return (event.steps ?? []).map((step) => step.content).join();
    case "done":
      return event.finishReason;
    case "error":
      return `${event.code} ${event.retryable}`;
    case "subagent":
      return `${event.agentId} ${show(event.inner)}`;
    case "claim":
      // @ts-expect-error: the text is a member of another event
      return event.text;
    // @ts-expect-error: there is no such event
    case "shout":
      return "";
    default:
      return event.event;
  }
}
