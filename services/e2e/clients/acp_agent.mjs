// An agent on the published SDK of the Agent Client Protocol, which the backend acp runs in the tests. Its sessions are files of
// its folder. Each line of a prompt says what it does.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const { agent: call, client } = acp.methods;
const cancelled = new Set();
const file = (sessionId) => `session-${sessionId}`;

const chunk = (text, sessionUpdate = "agent_message_chunk") => ({ sessionUpdate, content: { type: "text", text } });

const verbs = {
  async think(cx, text) { await cx.update(chunk(text, "agent_thought_chunk")); },
  async say(cx, text) { for (const word of text.match(/\S+\s*/g)) await cx.update(chunk(word)); },
  async plan(cx, text) {
    await cx.update({ sessionUpdate: "plan", entries: text.split(";").map((content, i) => ({
      content: content.trim(), priority: "medium", status: i === 0 ? "completed" : "pending",
    })) });
  },
  async permitted(cx, command) {
    const toolCallId = randomUUID();
    const rawInput = { command };
    await cx.update({ sessionUpdate: "tool_call", toolCallId, title: "Run a program", kind: "execute", status: "pending", rawInput });
    const { outcome } = await cx.ask({ toolCall: { toolCallId }, options: [
      { optionId: "yes", name: "Allow", kind: "allow_once" }, { optionId: "no", name: "Reject", kind: "reject_once" },
    ] });
    const allowed = outcome.outcome === "selected" && outcome.optionId === "yes";
    await cx.update({ sessionUpdate: "tool_call_update", toolCallId, status: allowed ? "completed" : "failed",
      content: [{ type: "content", content: { type: "text", text: allowed ? `ran ${command}` : "rejected" } }] });
  },
  async wait() { await new Promise((resolve) => setTimeout(resolve, 60_000)); },
  async recall(cx) { await cx.update(chunk(readFileSync(file(cx.sessionId), "utf8"))); },
  async die() { process.exit(3); },
};

async function prompt({ params, client: peer }) {
  const { sessionId } = params;
  cancelled.delete(sessionId);
  const cx = {
    sessionId,
    update: (update) => peer.notify(client.session.update, { sessionId, update }),
    ask: (request) => peer.request(client.session.requestPermission, { sessionId, ...request }),
  };
  const text = params.prompt.map((c) => c.text ?? c.type).join("\n");
  appendFileSync(file(sessionId), `${text.split("\n")[0]}|`);
  for (const line of text.split("\n")) {
    const [verb, ...rest] = line.split(": ");
    await verbs[verb]?.(cx, rest.join(": "));
    if (/has allowed this call/.test(line)) await verbs.permitted(cx, JSON.parse(line.match(/\{.*\}/)[0]).command);
    if (cancelled.has(sessionId)) return { stopReason: "cancelled" };
  }
  return { stopReason: "end_turn" };
}

acp.agent({ name: "sdk-agent" })
  .onRequest(call.initialize, () => ({ protocolVersion: 1, agentCapabilities: { loadSession: true }, agentInfo: { name: "sdk-agent", version: "1" } }))
  .onRequest(call.session.new, () => {
    const sessionId = randomUUID();
    writeFileSync(file(sessionId), "");
    return { sessionId };
  })
  .onRequest(call.session.load, async ({ params, client: peer }) => {
    if (!existsSync(file(params.sessionId))) throw acp.RequestError.resourceNotFound(params.sessionId);
    await peer.notify(client.session.update, { sessionId: params.sessionId, update: chunk("repeated") });
    return {};
  })
  .onRequest(call.session.prompt, prompt)
  .onNotification(call.session.cancel, ({ params }) => void cancelled.add(params.sessionId))
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
