// The validators of requests and events. They accept and refuse what schemas/request.json and schemas/events/*.json do; the
// types of the package are derived from them.
import { z } from "zod";

// open is an object whose unknown members are kept, because newer servers add some. Its type has the known ones only, so that
// a misspelled member does not compile.
function open<S extends z.ZodRawShape>(shape: S): z.ZodObject<S> {
  return z.looseObject(shape) as unknown as z.ZodObject<S>;
}

const id = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);
const timestamp = z.iso.datetime({ offset: true });
const hash = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.int().min(0);
const object = z.record(z.string(), z.unknown());
const text = z.string().optional();

// A request.

const textPart = open({
  type: z.literal("text"),
  text: z.string().min(1),
  url: z.never().optional(),
  data: z.never().optional(),
  ref: z.never().optional(),
  mediaType: text,
  name: text,
});

const mediaMembers = { type: z.enum(["image", "file"]), text, mediaType: text, name: text, ref: z.never().optional() };

/** A piece of a message: a text, or an image or file by URL or with its data in base64. */
export const UserContentBlockSchema = z.union([
  textPart,
  open({ ...mediaMembers, url: z.string(), data: z.never().optional() }),
  open({ ...mediaMembers, data: z.string(), url: z.never().optional() }),
]);

/** What a user says. */
export const InputMessageSchema = z.strictObject({
  id: z.string().max(128).optional(),
  role: z.literal("user"),
  content: z.union([z.string().min(1), z.array(UserContentBlockSchema).min(1).max(100)]),
});

const actionResult = {
  actionId: id,
  status: z.enum(["success", "error", "denied"]),
  result: z.unknown().optional(),
  error: text,
};

/** The answer to a continuation. */
export const ActionResultSchema = z.strictObject(actionResult);

const requestTool = { name: id, description: text, schema: object.optional() };

/** A tool that the client of a request runs. */
export const RequestToolSchema = z.strictObject(requestTool);

const toolChoice = z.discriminatedUnion("mode", [
  z.strictObject({ mode: z.enum(["auto", "none", "required"]) }),
  z.strictObject({ mode: z.literal("tool"), name: id }),
]);

const formatMembers = { name: id.optional(), strict: z.boolean().optional() };
const responseFormat = z.discriminatedUnion("type", [
  z.strictObject({ ...formatMembers, type: z.enum(["text", "json"]) }),
  z.strictObject({ ...formatMembers, type: z.literal("json_schema"), schema: object }),
]);

/** Options for the model. An absent one leaves the agent's own setting. */
export const RequestOptionsSchema = z.strictObject({
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().min(0).max(1).optional(),
  stop: z.array(z.string().min(1).max(256)).max(4).optional(),
  maxTokens: count.optional(),
  toolChoice: toolChoice.optional(),
  responseFormat: responseFormat.optional(),
});

/** The body of `POST /v1/agents/{agentName}/stream`. */
export const AgentRequestSchema = z
  .strictObject({
    messages: z.array(InputMessageSchema).max(100),
    threadId: id.optional(),
    context: z
      .looseObject({ actionResults: z.array(ActionResultSchema).max(100).optional(), model: text })
      .optional(),
    tools: z.array(RequestToolSchema).max(128).optional(),
    options: RequestOptionsSchema.optional(),
  })
  .superRefine((request, context) => {
    const hasResults = (request.context?.actionResults?.length ?? 0) > 0;
    if (hasResults && request.threadId === undefined) {
      context.addIssue({ code: "custom", path: ["threadId"], message: "action results need the thread that they are for" });
    }
    if (!hasResults && request.messages.length === 0) {
      context.addIssue({ code: "custom", path: ["messages"], message: "a request needs a message or an action result" });
    }
  });

// Parts of events.

const objectRef = open({ object: z.string(), size: count, sha256: hash });

// inputPart is a part as it is stored: large data is replaced by a reference.
const inputPart = open({
  type: z.enum(["text", "image", "file"]),
  text,
  url: text,
  data: text,
  mediaType: text,
  name: text,
  ref: objectRef.optional(),
});

const inputContent = z.union([z.string(), z.array(inputPart)]);
const inputMessage = open({ id: z.string().max(128).optional(), role: z.literal("user"), content: inputContent });
const toolStatus = z.enum(["success", "error", "denied", "aborted", "unknown"]);

/** What a client must do before a request can continue. */
export const ContinuationKindSchema = z.enum(["tool", "approval", "input"]);

/** Why the model stopped. */
export const FinishReasonSchema = z.enum([
  "stop",
  "length",
  "tool_calls",
  "action_required",
  "max_turns",
  "budget",
  "content_filter",
  "refusal",
]);

/** A finished block of an answer. */
export const AssistantContentBlockSchema = z.discriminatedUnion("type", [
  open({ type: z.literal("text"), text }),
  open({ type: z.literal("thinking"), thinking: text }),
  open({ type: z.literal("tool_use"), toolCallId: id.optional(), name: text, args: object.optional() }),
  open({
    type: z.literal("tool_result"),
    toolCallId: id.optional(),
    name: text,
    status: toolStatus.optional(),
    summary: text,
    media: z.array(inputPart).optional(),
  }),
]);

const usageMembers = {
  inputTokens: count,
  outputTokens: count,
  cachedInputTokens: count.optional(),
  cacheWriteTokens: count.optional(),
  reasoningTokens: count.optional(),
  costUsd: z.number().min(0).optional(),
};

/** Tokens, and money where a price is known. */
export const UsageSchema = open(usageMembers);

/** The place of an event in its block: one start, any number of deltas, one stop. */
export const EventStageSchema = z.enum(["start", "delta", "stop"]);

const envelope = {
  id: z
    .string()
    .regex(/^[a-z0-9]{1,16}-(0|[1-9][0-9]{0,18})$/)
    .optional(),
  requestId: z.string().regex(/^[A-Za-z0-9_-]{0,64}$/),
  timestamp,
};

// block returns the validator of an event that is one of the stages of a block.
function block<N extends string, S extends z.ZodRawShape>(name: N, members: S) {
  const shared = {
    event: z.literal(name),
    ...envelope,
    messageId: id.optional(),
    blockId: id,
    discarded: z.boolean().optional(),
    reason: text,
    ...members,
  };
  return z.discriminatedUnion("stage", [
    open({ ...shared, stage: z.literal("start"), blockIndex: count, deltaIndex: count.optional(), delta: text }),
    open({ ...shared, stage: z.literal("delta"), blockIndex: count.optional(), deltaIndex: count, delta: z.string() }),
    open({ ...shared, stage: z.literal("stop"), blockIndex: count.optional(), deltaIndex: count.optional(), delta: text }),
  ]);
}

// The nine events of the agent event protocol.

export const MetadataEventSchema = open({
  event: z.literal("metadata"),
  ...envelope,
  threadId: id,
  agentId: id,
  protocolVersion: text,
  provider: text,
  model: text,
});

export const TextEventSchema = block("text", { text, signature: text });

export const ThinkingEventSchema = block("thinking", { thinking: text, signature: text });

export const ToolCallEventSchema = block("tool_call", {
  toolCallId: id,
  name: text,
  args: object.optional(),
  gate: ContinuationKindSchema.optional(),
  byAgent: z.boolean().optional(),
  signature: text,
  description: text,
  schema: object.optional(),
});

export const ToolResultEventSchema = block("tool_result", {
  toolCallId: id,
  name: text,
  status: toolStatus.optional(),
  summary: text,
  media: z.array(inputPart).optional(),
  elapsedMs: count.optional(),
}).refine((event) => event.stage !== "stop" || event.discarded === true || event.status !== undefined, {
  path: ["status"],
  message: "the stop of a tool_result needs a status",
});

export const DoneEventSchema = open({
  event: z.literal("done"),
  ...envelope,
  messageId: id,
  threadId: id,
  content: z.array(AssistantContentBlockSchema),
  usage: UsageSchema,
  finishReason: FinishReasonSchema,
});

/** The reasons of errors, for programs. */
export const ErrorCodeSchema = z.enum([
  "auth_failed",
  "thread_not_found",
  "thread_access_denied",
  "invalid_message_format",
  "message_too_large",
  "rate_limit_exceeded",
  "stream_timeout",
  "agent_error",
  "tool_error",
  "internal_error",
  "invalid_action_id",
  "agent_not_found",
  "request_not_found",
  "object_not_found",
  "route_not_found",
  "thread_busy",
  "request_finished",
  "idempotency_mismatch",
  "unavailable",
]);

export const ErrorEventSchema = open({
  event: z.literal("error"),
  ...envelope,
  threadId: id.optional(),
  code: ErrorCodeSchema,
  message: z.string(),
  retryable: z.boolean(),
  runningRequestId: id.optional(),
  usage: UsageSchema.optional(),
});

export const AbortedEventSchema = open({
  event: z.literal("aborted"),
  ...envelope,
  messageId: id.optional(),
  threadId: id.optional(),
  reason: text,
  content: z.array(AssistantContentBlockSchema).optional(),
  usage: UsageSchema.optional(),
});

export const ContinuationEventSchema = open({
  event: z.literal("continuation"),
  ...envelope,
  actionId: id,
  kind: ContinuationKindSchema,
  payload: open({
    toolCallId: id.optional(),
    name: text,
    args: object.optional(),
    argsHash: hash.optional(),
    question: text,
    schema: object.optional(),
    url: z.url().optional(),
    askedIn: id.optional(),
    again: z.boolean().optional(),
    agent: open({ agentId: id, requestId: id, threadId: id, actionId: id, toolCallId: id.optional() }).optional(),
  }),
  expiresAt: timestamp.optional(),
});

// The events that clients include.

const historyMessage = open({
  id: z.string().max(128).optional(),
  role: z.enum(["user", "assistant", "tool"]),
  content: inputContent.optional(),
  toolCalls: z.array(open({ id: z.string().min(1).max(128), name: z.string(), args: object.optional() })).optional(),
  toolCallId: text,
  status: toolStatus.optional(),
});

const inputOptions = open({
  ...RequestOptionsSchema.shape,
  toolChoice: open({ mode: z.enum(["auto", "none", "required", "tool"]), name: id.optional() }).optional(),
  responseFormat: open({ ...formatMembers, type: z.enum(["text", "json", "json_schema"]), schema: object.optional() }).optional(),
});

export const InputEventSchema = open({
  event: z.literal("input"),
  ...envelope,
  threadId: id,
  agentId: id,
  steerId: id.optional(),
  messages: z.array(inputMessage),
  actionResults: z.array(open(actionResult)).optional(),
  history: z.array(historyMessage).optional(),
  tools: z.array(open(requestTool)).optional(),
  options: inputOptions.optional(),
  system: text,
  context: object.optional(),
  metadata: object.optional(),
});

export const ClaimEventSchema = open({
  event: z.literal("claim"),
  ...envelope,
  epoch: z.int().min(1),
  runner: z.string(),
  build: text,
  released: z.boolean().optional(),
  traceId: text,
});

export const PlanEventSchema = open({
  event: z.literal("plan"),
  ...envelope,
  stage: EventStageSchema,
  steps: z.array(open({ content: z.string(), done: z.boolean() })).optional(),
  summary: text,
  toolCallId: id.optional(),
});

export const NoticeEventSchema = open({
  event: z.literal("notice"),
  ...envelope,
  level: z.enum(["info", "warning", "error"]),
  message: z.string(),
  details: z.unknown().optional(),
});

export const FinalAnswerEventSchema = block("final_answer", { content: text, title: text, format: text, kind: text });

export const UsageEventSchema = open({
  event: z.literal("usage"),
  ...envelope,
  ...usageMembers,
  turns: count,
  finishReason: FinishReasonSchema.optional(),
  model: text,
  ttftMs: count.optional(),
  elapsedMs: count.optional(),
});

export const CustomEventSchema = open({
  event: z.literal("custom"),
  ...envelope,
  type: z.string(),
  data: z.unknown().optional(),
  toolCallId: id.optional(),
});

export const ContextCompressedEventSchema = open({
  event: z.literal("context_compressed"),
  ...envelope,
  originalLength: z.int(),
  compressedLength: z.int(),
  compressionRatio: z.number(),
  strategy: z.string(),
});

/** The members that all events share. */
export const EventEnvelopeSchema = open({ event: z.string(), ...envelope });

export const SubagentEventSchema = open({
  event: z.literal("subagent"),
  ...envelope,
  toolCallId: id,
  agentId: id,
  // Its type is the envelope: a type that contains itself cannot be derived.
  inner: z.lazy((): z.ZodType<z.infer<typeof EventEnvelopeSchema>> => AgentEventSchema),
});

export const ToolOutputEventSchema = open({
  event: z.literal("tool_output"),
  ...envelope,
  toolCallId: id,
  status: toolStatus,
  content: text,
  ref: objectRef.optional(),
  media: z.array(inputPart).optional(),
});

/** Any event that a client can receive: the nine, and those that it includes. Readers skip events of other names. */
export const AgentEventSchema = z.discriminatedUnion("event", [
  MetadataEventSchema,
  TextEventSchema,
  ThinkingEventSchema,
  ToolCallEventSchema,
  ToolResultEventSchema,
  DoneEventSchema,
  ErrorEventSchema,
  AbortedEventSchema,
  ContinuationEventSchema,
  InputEventSchema,
  ClaimEventSchema,
  PlanEventSchema,
  NoticeEventSchema,
  FinalAnswerEventSchema,
  UsageEventSchema,
  CustomEventSchema,
  ContextCompressedEventSchema,
  SubagentEventSchema,
  ToolOutputEventSchema,
]);
