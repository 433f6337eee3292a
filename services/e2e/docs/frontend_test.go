package docs

import (
	"testing"
)

// cuttingClient uses agentbus.mjs with a fetch that cuts each response after some bytes.
const cuttingClient = `
import { run, abort } from "./agentbus.mjs";
const real = globalThis.fetch;
let connections = 0;
globalThis.fetch = async (...call) => {
  const response = await real(...call);
  if (!response.body || !String(call[0]).includes("/stream")) return response;
  connections++;
  let left = 4000;
  const cut = new TransformStream({ transform(chunk, controller) {
    controller.enqueue(chunk.slice(0, left));
    if ((left -= chunk.length) <= 0) controller.error(new Error("cut"));
  } });
  return new Response(response.body.pipeThrough(cut), { status: response.status, headers: response.headers });
};
const base = process.env.AGENTBUS_URL;
const ask = (content) => run(base, "demo", { messages: [{ role: "user", content }] });
const ids = [];
let deltas = 0;
for await (const event of ask("/stream 40 100")) {
  ids.push(event.id);
  if (event.event === "text" && event.stage === "delta") deltas++;
}
console.log("deltas", deltas, "repeated", ids.length - new Set(ids).size, "resumed", connections > 2);
for await (const event of ask("/sleep 30s")) {
  if (event.event === "metadata") await abort(base, event.requestId);
  if (event.event === "aborted") console.log("aborted");
}
try {
  for await (const event of run(base, "missing", { messages: [] })) console.log(event);
} catch (error) {
  console.log(error.code);
}
`

func TestFrontend(t *testing.T) {
	t.Parallel()
	need(t, "node")
	dir := t.TempDir()
	read(t, "frontend.md").write(dir, "agentbus.mjs")
	got := shell(t, dir, serve(t, "", binaries), cuttingClient, "node --input-type=module -")
	wantTexts(t, got, "deltas 40 repeated 0 resumed true", "aborted", "agent_not_found")
}
