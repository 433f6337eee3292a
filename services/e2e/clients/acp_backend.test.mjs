// The backend acp, with an agent on the published SDK as a process, and with `agentbus acp` as the agent.
import assert from "node:assert/strict";
import { test } from "./harness.mjs";
import { abort, results, run, text } from "./upstream.mjs";

const answer = (events, status, error) => {
  const { actionId } = events.find((e) => e.event === "continuation");
  return { threadId: events[0].threadId, context: { actionResults: [{ actionId, status, error }] } };
};

test("an agent on the SDK streams text, thoughts and a plan", async () => {
  const events = await run("sdk", "think: hm\nplan: look; answer\nsay: hello there");
  assert.equal(text(events), "hello there");
  assert.equal(events.find((e) => e.event === "thinking" && e.stage === "stop").thinking, "hm");
  assert.deepEqual(events.find((e) => e.event === "plan").steps, [{ content: "look", done: true }, { content: "answer", done: false }]);
  assert.equal(events.at(-1).finishReason, "stop");
});

test("its session is loaded for the next request, and not repeated", async () => {
  const first = await run("sdk", "say: one");
  const second = await run("sdk", "recall: now", { threadId: first[0].threadId });
  assert.equal(text(second), "say: one|recall: now|");
  assert.equal(second.filter((e) => e.event === "notice").length, 0);
});

test("a permission is an approval, and the decision reaches the agent", async () => {
  const asked = await run("sdk", "permitted: make test\nsay: not yet");
  assert.equal(asked.at(-1).finishReason, "action_required");
  const { kind, payload } = asked.find((e) => e.event === "continuation");
  assert.equal(kind, "approval");
  assert.equal(payload.name, "Run a program");
  assert.deepEqual(payload.args, { command: "make test" });
  assert.match(payload.argsHash, /^[0-9a-f]{64}$/);
  assert.deepEqual(results(asked), []);
  const allowed = await run("sdk", undefined, answer(asked, "success"));
  assert.deepEqual(results(allowed).at(-1), ["success", "ran make test"]);
  assert.equal(allowed.at(-1).finishReason, "stop");
  const denied = await run("sdk", undefined, answer(await run("sdk", "permitted: make test"), "denied", "not now"));
  assert.deepEqual(results(denied).filter(([, content]) => content.startsWith("ran")), []);
  assert.match(text(await run("sdk", "recall: now", { threadId: denied[0].threadId })), /not allowed this call.*not now/);
});

test("an operator's permissions answer for the user", async () => {
  assert.deepEqual(results(await run("trusted", "permitted: make test")), [["success", "ran make test"]]);
  assert.deepEqual(results(await run("reading", "permitted: make test")), [["denied", "rejected"]]);
});

test("an abort ends the agent", async () => {
  let aborted;
  const events = await run("sdk", "say: begun\nwait: long", {}, async (e) => {
    if (e.event !== "text" || aborted) return;
    aborted = Date.now();
    await abort(e.requestId);
  });
  assert.equal(events.at(-1).event, "aborted");
  assert.ok(Date.now() - aborted < 5000, "the abort took too long");
});

test("an agent that dies is an error that may pass", async () => {
  const events = await run("sdk", "say: half\ndie: now");
  assert.equal(events.at(-1).event, "error");
  assert.equal(events.at(-1).retryable, true);
  assert.match(events.at(-1).message, /ended in the middle of its turn/);
});

test("agentbus runs agentbus", async () => {
  const first = await run("mirror", '/think hm\n/tool calculator {"expression":"6*7"}\n/say it is 42');
  assert.equal(text(first), "it is 42");
  assert.deepEqual(results(first), [["success", "6*7 = 42"]]);
  const second = await run("mirror", "/say again", { threadId: first[0].threadId });
  assert.equal(text(second), "again");
  const asked = await run("mirror", '/approve calculator {"expression":"2+2"}\n/say done');
  assert.equal(asked.at(-1).finishReason, "action_required");
  const allowed = await run("mirror", undefined, answer(asked, "success"));
  assert.deepEqual(results(allowed).at(-1), ["success", "2+2 = 4"]);
});
