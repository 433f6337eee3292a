// A server for the agents that the gateway under test runs behind HTTP, and what the tests of their backends share.
import assert from "node:assert/strict";
import http from "node:http";
import { Readable } from "node:stream";

const gateway = process.env.AGENTBUS_URLS.split(",")[0];

// serve serves handlers by path at the address of the configuration. The path /gateway leads to the gateway under test.
export async function serve(handlers) {
  const server = http.createServer(async (req, res) => {
    const url = new URL(req.url, gateway);
    const body = await new Response(Readable.toWeb(req)).text();
    if (url.pathname.startsWith("/gateway/")) {
      const after = req.headers["last-event-id"];
      const { ok, status, headers, body: stream } = await fetch(gateway + url.pathname.slice("/gateway".length), {
        method: req.method, body: req.method === "POST" ? body : undefined,
        headers: { "Content-Type": "application/json", ...(after && { "Last-Event-ID": after }) },
      });
      const location = headers.get("content-location");
      res.writeHead(status, { "Content-Type": headers.get("content-type") ?? "text/plain", ...(location && { "Content-Location": location }) });
      if (!stream || !ok) return res.end();
      return Readable.fromWeb(stream).on("error", () => res.destroy()).pipe(res);
    }
    const path = Object.keys(handlers).find((prefix) => url.pathname === prefix || url.pathname.startsWith(prefix + "/"));
    try {
      await handlers[path]({ req, res, url, body: body === "" ? undefined : JSON.parse(body) });
    } catch (error) {
      if (!res.headersSent) res.writeHead(400, { "Content-Type": "application/json" });
      res.end(JSON.stringify({ message: String(error?.message ?? error) }));
    }
  });
  const [host, port] = process.env.AGENTBUS_UPSTREAM.split(":");
  await new Promise((resolve, reject) => server.once("error", reject).listen(Number(port), host, resolve));
}

// run runs a request of an agent and returns its events.
export async function run(agent, text, rest = {}, seen = () => {}) {
  const messages = text === undefined ? [] : [{ role: "user", content: text }];
  const response = await fetch(`${gateway}/v1/agents/${agent}/stream?include=plan,notice,custom,usage,tool_output`, {
    method: "POST", headers: { "Content-Type": "application/json", Accept: "application/x-ndjson" },
    body: JSON.stringify({ messages, ...rest }),
  });
  assert.equal(response.status, 200, response.ok ? "" : await response.text());
  const events = [];
  let buffer = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (buffer + part).split("\n");
    buffer = lines.pop();
    for (const line of lines.filter(Boolean)) {
      events.push(JSON.parse(line));
      await seen(events.at(-1));
    }
  }
  return events;
}

export const abort = (requestId) => fetch(`${gateway}/v1/requests/${requestId}/abort`, { method: "POST" });

export const text = (events) => events.filter((e) => e.event === "text" && e.stage === "stop" && !e.discarded).map((e) => e.text).join("");

export const results = (events) => events.filter((e) => e.event === "tool_output").map((e) => [e.status, e.content]);

export const actions = (events) => events.filter((e) => e.event === "continuation");

// answers is the rest of a request that answers all actions of another one.
export const answers = (events, ...given) => ({
  threadId: events[0].threadId,
  context: { actionResults: actions(events).map(({ actionId }, i) => ({ actionId, ...given[i] })) },
});
