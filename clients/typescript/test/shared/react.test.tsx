// The hooks, in a page of React.
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { expect, inject, test, vi } from "vitest";
import { AgentClient } from "../../src/index.js";
import { type AgentState, useAgent, useThread } from "../../src/react.js";

const gateways = inject("gateways");
const client = new AgentClient(gateways[0]!);
const other = new AgentClient(gateways.at(-1)!);

// mount renders a component that uses a hook, and returns the hook's newest state.
function mount<T>(hook: () => T): { state: () => T; unmount: () => void } {
  let newest: T | undefined;
  const root = createRoot(document.createElement("div"));
  const Page = () => {
    newest = hook();
    return null;
  };
  root.render(createElement(Page));
  return { state: () => newest!, unmount: () => root.unmount() };
}

const until = (check: () => void) => vi.waitFor(check, { timeout: 20_000 });

async function mountAgent(agent: string): Promise<{ state: () => AgentState; unmount: () => void }> {
  const page = mount(() => useAgent(client, agent, { onEvent: () => {} }));
  await until(() => expect(page.state()).toMatchObject({ status: "idle", messages: [] }));
  return page;
}

test("a conversation with an approval, as two screens see it", async () => {
  const page = await mountAgent("careful");
  await page.state().send('/think hm\n/say first\n/tool calculator {"expression":"6*7"}\n/say last');
  await until(() => expect(page.state().status).toBe("action_required"));
  expect(page.state().messages).toMatchObject([
    { role: "user", content: expect.stringContaining("/say first") },
    { role: "assistant", parts: [{ type: "thinking", thinking: "hm" }, { type: "text", text: "first" }, { type: "tool_call", args: { expression: "6*7" } }] },
  ]);
  const screen = mount(() => useThread(other, page.state().threadId));
  await until(() => expect(screen.state().actions).toHaveLength(1));
  await page.state().approve(page.state().actions[0]!);
  for (const { state } of [page, screen]) {
    await until(() => expect(state()).toMatchObject({ status: "idle", actions: [] }));
    expect(state().messages.at(-1)).toMatchObject({ role: "assistant", parts: [{ type: "text", text: "last" }] });
  }
  page.unmount();
  screen.unmount();
});

test("a message to a running request, and its abort", async () => {
  const page = await mountAgent("demo");
  await page.state().send("/sleep 20s");
  await until(() => expect(page.state().status).toBe("running"));
  await page.state().steer("/say other");
  await page.state().abort("not needed");
  await until(() => expect(page.state().status).toBe("aborted"));
  page.unmount();
});

test("a request that fails", async () => {
  const page = await mountAgent("demo");
  await page.state().send("/fail tool_error");
  await until(() => expect(page.state()).toMatchObject({ status: "error", error: { code: "tool_error" } }));
  await page.state().send("/say again");
  await until(() => expect(page.state()).toMatchObject({ status: "idle" }));
  expect(page.state().error).toBeUndefined();
  page.unmount();
});
