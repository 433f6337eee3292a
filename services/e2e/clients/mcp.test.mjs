// Published MCP servers, as processes and by HTTP, whose tools an agent calls.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "./harness.mjs";
import { actions, results, run } from "./upstream.mjs";

const call = (name, args = {}, seen) => run("tools", `/tool ${name} ${JSON.stringify(args)}`, {}, seen);

// eventually calls until check accepts the events: executors publish lists of tools a while after their servers are there.
async function eventually(check, make) {
  const late = Date.now() + 45_000;
  for (;;) {
    try {
      return check(await make());
    } catch (error) {
      if (!(error instanceof assert.AssertionError) || Date.now() > late) throw error;
      await sleep(200);
    }
  }
}

const output = (events) => results(events).at(-1);
const succeeds = (name, args, seen) => eventually((events) => (assert.equal(output(events)?.[0], "success", JSON.stringify(events)), events), () => call(name, args, seen));
const deltas = (events) => events.filter((e) => e.event === "tool_result" && e.delta).map((e) => e.delta).join("");

test("tools of server-everything run", async () => {
  assert.deepEqual(output(await succeeds("everything__echo", { message: "hi" })), ["success", "Echo: hi"]);
  assert.match(output(await call("everything__get-sum", { a: 40, b: 2 }))[1], /42/);
  assert.equal(output(await call("everything__get-sum", { a: "forty" }))[0], "error");
});

test("structured content and an image are the result", async () => {
  const [, structured] = output(await succeeds("everything__get-structured-content", { location: "Chicago" }));
  assert.equal(typeof JSON.parse(structured).temperature, "number");
  const picture = await succeeds("everything__get-tiny-image", {});
  const media = picture.find((e) => e.event === "tool_result" && e.media)?.media;
  assert.equal(media?.length, 1, JSON.stringify(picture));
  assert.equal(media[0].mediaType ?? media[0].type, "image/png");
});

test("progress arrives while the tool runs", async () => {
  const events = await succeeds("everything__trigger-long-running-operation", { duration: 1, steps: 4 });
  assert.equal(deltas(events), "1 of 4\n2 of 4\n3 of 4\n4 of 4\n");
});

test("resources and prompts are tools", async () => {
  const list = JSON.parse(output(await succeeds("everything__list_resources", {}))[1]);
  assert.ok(list.resources.length > 0 && list.templates.length > 0, JSON.stringify(list));
  const [status, content] = output(await call("everything__read_resource", { uri: list.resources[0].uri }));
  assert.equal(status, "success");
  assert.ok(content.length > 0);
  const prompts = JSON.parse(output(await call("everything__list_prompts"))[1]).prompts.map((p) => p.name);
  assert.ok(prompts.includes("args-prompt"), prompts.join());
  assert.match(output(await call("everything__get_prompt", { name: "args-prompt", arguments: { city: "Bern" } }))[1], /Bern/);
  assert.equal(output(await call("everything__read_resource", { uri: "demo://nothing" }))[0], "error");
});

test("a server asks the user, and the call continues with the answer", async () => {
  const asked = await eventually(
    (events) => (assert.equal(actions(events).length, 1, JSON.stringify(events)), events),
    () => call("everything__trigger-elicitation-request"),
  );
  const [{ actionId, payload }] = actions(asked);
  assert.equal(payload.schema.properties.name.type, "string");
  const answered = await run("tools", undefined, {
    threadId: asked[0].threadId, context: { actionResults: [{ actionId, status: "success", result: { name: "Ann", check: true } }] },
  });
  assert.equal(output(answered)[0], "success", JSON.stringify(answered));
  assert.match(output(answered)[1], /Ann/);
});

test("server-filesystem writes and reads, and not outside its folder", async () => {
  const path = `${process.env.AGENTBUS_WORKSPACE}/note.txt`;
  await succeeds("files__write_file", { path, content: "a note" });
  assert.equal(output(await call("files__read_text_file", { path }))[1], "a note");
  const outside = output(await call("files__read_text_file", { path: "/etc/hostname" }));
  assert.equal(outside[0], "error");
  assert.match(outside[1], /denied/);
});

test("a tool emits events while it runs", async () => {
  const events = await succeeds("own__build", {});
  const custom = events.filter((e) => e.event === "custom").map((e) => [e.type, e.data]);
  assert.deepEqual(custom, [["build_progress", { percent: 40 }], ["environment_input", { content: "a line of the log" }]]);
  const stop = events.findLastIndex((e) => e.event === "tool_output");
  assert.ok(events.findLastIndex((e) => e.event === "custom") < stop, "the events precede the result");
  assert.match(deltas(events), /not an event: .*"done"[^]*built\n/);
});

test("a change of the list of tools counts for the next request", async () => {
  await succeeds("own__grow", {});
  assert.deepEqual(output(await succeeds("own__more", {})), ["success", "more"]);
  assert.deepEqual(output(await call("own__shrink")), ["success", "shrunk"]);
  await eventually((events) => assert.notEqual(output(events)?.[0], "success"), () => call("own__more"));
});

test("a process that dies in a call leaves a clear result, and is started again", async () => {
  await succeeds("own__build", {});
  const [status, content] = output(await call("own__die"));
  assert.equal(status, "unknown");
  assert.match(content, /may or may not have taken effect/);
  await succeeds("own__build", {});
});

test("a server by HTTP that is killed in a call leaves a clear result, and is used again", async () => {
  const [, port] = process.env.AGENTBUS_MCP_SERVER.split(":");
  const start = () => spawn("node", ["node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"], {
    env: { ...process.env, PORT: port }, stdio: "ignore",
  });
  let server = start();
  try {
    await succeeds("web__echo", { message: "hi" });
    let killed = false;
    const events = await call("web__trigger-long-running-operation", { duration: 30, steps: 60 }, async (e) => {
      if (killed || e.event !== "tool_result" || !e.delta) return;
      killed = true;
      server.kill("SIGKILL");
      await once(server, "exit");
    });
    assert.ok(killed, JSON.stringify(events));
    const [status, content] = output(events);
    assert.equal(status, "error");
    assert.match(content, /MCP server web/);
    server = start();
    await succeeds("web__echo", { message: "again" });
  } finally {
    server.kill("SIGKILL");
  }
});
