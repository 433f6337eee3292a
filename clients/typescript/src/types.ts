// The types of requests and events, derived from the validators. They cost nothing at run time.
import type { z } from "zod";
import type * as schemas from "./schemas.js";

export type UserContentBlock = z.infer<typeof schemas.UserContentBlockSchema>;
export type InputMessage = z.infer<typeof schemas.InputMessageSchema>;
export type ActionResult = z.infer<typeof schemas.ActionResultSchema>;
export type RequestTool = z.infer<typeof schemas.RequestToolSchema>;
export type RequestOptions = z.infer<typeof schemas.RequestOptionsSchema>;
export type AgentRequest = z.infer<typeof schemas.AgentRequestSchema>;

export type AssistantContentBlock = z.infer<typeof schemas.AssistantContentBlockSchema>;
export type ContinuationKind = z.infer<typeof schemas.ContinuationKindSchema>;
export type FinishReason = z.infer<typeof schemas.FinishReasonSchema>;
export type Usage = z.infer<typeof schemas.UsageSchema>;
export type EventStage = z.infer<typeof schemas.EventStageSchema>;
export type ErrorCode = z.infer<typeof schemas.ErrorCodeSchema>;
export type EventEnvelope = z.infer<typeof schemas.EventEnvelopeSchema>;

export type MetadataEvent = z.infer<typeof schemas.MetadataEventSchema>;
export type TextEvent = z.infer<typeof schemas.TextEventSchema>;
export type ThinkingEvent = z.infer<typeof schemas.ThinkingEventSchema>;
export type ToolCallEvent = z.infer<typeof schemas.ToolCallEventSchema>;
export type ToolResultEvent = z.infer<typeof schemas.ToolResultEventSchema>;
export type DoneEvent = z.infer<typeof schemas.DoneEventSchema>;
export type ErrorEvent = z.infer<typeof schemas.ErrorEventSchema>;
export type AbortedEvent = z.infer<typeof schemas.AbortedEventSchema>;
export type ContinuationEvent = z.infer<typeof schemas.ContinuationEventSchema>;

export type InputEvent = z.infer<typeof schemas.InputEventSchema>;
export type ClaimEvent = z.infer<typeof schemas.ClaimEventSchema>;
export type PlanEvent = z.infer<typeof schemas.PlanEventSchema>;
export type NoticeEvent = z.infer<typeof schemas.NoticeEventSchema>;
export type FinalAnswerEvent = z.infer<typeof schemas.FinalAnswerEventSchema>;
export type UsageEvent = z.infer<typeof schemas.UsageEventSchema>;
export type CustomEvent = z.infer<typeof schemas.CustomEventSchema>;
export type ContextCompressedEvent = z.infer<typeof schemas.ContextCompressedEventSchema>;
export type SubagentEvent = z.infer<typeof schemas.SubagentEventSchema>;
export type ToolOutputEvent = z.infer<typeof schemas.ToolOutputEventSchema>;

/** Any event that a client can receive. Ignore events of other names: newer servers send some. */
export type AgentEvent = z.infer<typeof schemas.AgentEventSchema>;
