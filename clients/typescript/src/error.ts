import type { ErrorCode } from "./types.js";

/** An error of the server. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** The reason, for programs. Newer servers have further codes: decide by `retryable` for one that you do not use. */
  readonly code: ErrorCode;
  /** The same call may succeed later. */
  readonly retryable: boolean;
  /** The HTTP status. */
  readonly status: number;
  /** How long to wait before another attempt, in milliseconds, if the server asked for it. */
  readonly retryAfter?: number;
  /** With `thread_busy`: the request that runs on the thread. */
  readonly runningRequestId?: string;

  constructor(message: string, details: Pick<ApiError, "code" | "retryable" | "status" | "retryAfter" | "runningRequestId">) {
    super(message);
    this.code = details.code;
    this.retryable = details.retryable;
    this.status = details.status;
    if (details.retryAfter !== undefined) this.retryAfter = details.retryAfter;
    if (details.runningRequestId !== undefined) this.runningRequestId = details.runningRequestId;
  }
}

/**
 * The connection failed more often than the client tries. `cause` is the last failure. The request runs on: follow it after
 * `cursor`.
 */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
  readonly requestId?: string;
  readonly cursor?: string;

  constructor(url: string, cause: unknown, requestId?: string, cursor?: string) {
    super(`${url} does not respond: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    if (requestId !== undefined) this.requestId = requestId;
    if (cursor !== undefined) this.cursor = cursor;
  }
}

/** A response that is not one of the protocol. Another attempt would fail in the same way. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/** Reports whether the same call may succeed soon. A busy thread may take long, and its running request can be followed. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof ApiError) return error.retryable && error.code !== "thread_busy";
  return !(error instanceof ProtocolError);
}

const maxErrorBody = 65_536; // characters

/**
 * Reads the `error` event in the body of a response. Another body, such as a proxy's page, gives an error by the status. It throws
 * if the connection is cut.
 */
export async function readError(response: Response): Promise<ApiError> {
  const seconds = Number(response.headers.get("Retry-After"));
  const details = {
    ...byStatus(response.status),
    status: response.status,
    ...(seconds > 0 && { retryAfter: seconds * 1000 }),
  };
  const text = await response.text();
  const event = text.length <= maxErrorBody ? parse(text) : undefined;
  if (!event) return new ApiError(`the server responded with status ${response.status} and no error event`, details);
  return new ApiError(event.message ?? event.code, { ...details, ...event });
}

function parse(text: string): (Pick<ApiError, "code" | "retryable" | "runningRequestId"> & { message?: string }) | undefined {
  try {
    const body = JSON.parse(text) as Record<string, unknown> | null;
    if (body?.event !== "error" || typeof body.code !== "string") return undefined;
    return {
      code: body.code as ErrorCode,
      retryable: body.retryable === true,
      ...(typeof body.message === "string" && { message: body.message }),
      ...(typeof body.runningRequestId === "string" && { runningRequestId: body.runningRequestId }),
    };
  } catch {
    return undefined; // not JSON: the status is all that is known
  }
}

function byStatus(status: number): Pick<ApiError, "code" | "retryable"> {
  if (status === 502 || status === 503 || status === 504) return { code: "unavailable", retryable: true };
  if (status === 429) return { code: "rate_limit_exceeded", retryable: true };
  if (status === 401) return { code: "auth_failed", retryable: false };
  if (status === 404) return { code: "route_not_found", retryable: false };
  return { code: "internal_error", retryable: status >= 500 };
}
