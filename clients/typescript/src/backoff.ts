import { ApiError } from "./error.js";

const shortest = 250; // about the first wait, in milliseconds
const longest = 10_000; // that no server has asked for
const longestAsked = 60_000;

/** Waits longer after each failure in a row, at random, so that clients do not reconnect at the same time. */
export class Backoff {
  /** The wait that the stream asked for, in milliseconds. */
  suggested = 0;
  private failures = 0;

  reset(): void {
    this.failures = 0;
  }

  /** Waits before the next attempt. It returns false if there have been enough, or the signal is aborted. */
  async pause(error: unknown, attempts: number, signal?: AbortSignal): Promise<boolean> {
    this.failures++;
    if (this.failures >= attempts || signal?.aborted) return false;
    await sleep(this.delay(error), signal);
    return !signal?.aborted;
  }

  /** What the server asked for and up to half as much again; otherwise about twice the wait before. */
  private delay(error: unknown): number {
    const asked = Math.min((error instanceof ApiError && error.retryAfter) || this.suggested, longestAsked);
    const own = Math.min(shortest * 2 ** (this.failures - 1), longest);
    return asked > own ? asked * (1 + Math.random() / 2) : own * (0.5 + Math.random() / 2);
  }
}

function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end, { once: true });
    function end() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    }
  });
}
