// useChat of @ai-sdk/react, rendered by React in a DOM.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import "./page.mjs";
import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { test } from "./harness.mjs";

const gateways = process.env.AGENTBUS_URLS.split(",");
const base = gateways[0];
const other = gateways.at(-1); // another gateway where there are several

// page opens a page with a chat. What it shows is its text; chat has the members of the hook.
function page({ id = randomUUID(), at = base, agent = "demo", ...options } = {}) {
  const element = document.createElement("main");
  document.body.append(element);
  const view = { id, chat: undefined, ends: [], resumed: false };
  const transport = new DefaultChatTransport({
    api: `${at}/ai-sdk/${agent}`,
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      view.resumed ||= init.method === "GET";
      return response;
    },
  });
  function Page() {
    view.chat = useChat({
      id, transport, resume: true,
      onFinish: (end) => void view.ends.push(end),
      sendAutomaticallyWhen: (state) =>
        lastAssistantMessageIsCompleteWithToolCalls(state) || lastAssistantMessageIsCompleteWithApprovalResponses(state),
      ...options,
    });
    const { messages, status, error } = view.chat;
    const shown = messages.map(({ id, role, parts }) =>
      createElement("p", { key: id, className: role }, parts.filter((p) => p.type === "text").map((p) => p.text).join("")),
    );
    return createElement("div", null, ...shown, createElement("output", null, error?.message ?? status));
  }
  const root = createRoot(element);
  root.render(createElement(Page));
  view.texts = (role) => [...element.querySelectorAll(`p.${role}`)].map((p) => p.textContent);
  view.status = () => element.querySelector("output")?.textContent;
  view.close = () => { root.unmount(); element.remove(); };
  return view;
}

async function until(met) {
  while (!met()) await new Promise((later) => setTimeout(later, 10));
}

// settled waits until a page has received as many answers.
const settled = (view, ends) => until(() => view.ends.length === ends && ["ready", "error"].includes(view.chat.status));

test("a page shows a chat, and its second turn", async () => {
  const view = page();
  await until(() => view.resumed);
  await view.chat.sendMessage({ text: "/say hello" });
  await until(() => view.texts("assistant").at(-1) === "hello" && view.status() === "ready");
  await view.chat.sendMessage({ text: "/say again" });
  await until(() => view.texts("assistant").at(-1) === "again" && view.status() === "ready");
  assert.deepEqual(view.texts("user"), ["/say hello", "/say again"]);
  assert.deepEqual(view.texts("assistant"), ["hello", "again"]);
  view.close();
});

test("a page that is loaded again, on another gateway, shows the rest of the answer", async () => {
  const first = page();
  await until(() => first.resumed);
  void first.chat.sendMessage({ text: "/stream 60 100\n/say the end" });
  await until(() => first.texts("assistant").at(-1)?.length > 20);
  const messages = structuredClone(first.chat.messages);
  first.close(); // closes its connection
  const second = page({ id: first.id, at: other, messages });
  await settled(second, 1);
  await until(() => second.texts("assistant").at(-1)?.endsWith("the end"));
  assert.deepEqual(second.texts("user"), ["/stream 60 100\n/say the end"]);
  assert.equal(second.texts("assistant").length, 1);
  const numbers = second.texts("assistant")[0].match(/\d+/g).map(Number);
  assert.deepEqual(numbers, Array.from({ length: 60 }, (_, i) => i));
  second.close();
});

test("an approval and a tool of the client, which are sent automatically", async () => {
  const view = page({
    onToolCall: ({ toolCall: { toolName, toolCallId } }) =>
      void view.chat.addToolOutput({ tool: toolName, toolCallId, output: "a.pdf" }),
  });
  await until(() => view.resumed);
  await view.chat.sendMessage({ text: '/approve echo {"text":"careful"}\n/client-tool pick_file {}\n/say after' });
  const call = () => view.chat.messages.at(-1).parts.find((p) => p.state === "approval-requested");
  await until(call);
  await view.chat.addToolApprovalResponse({ id: call().approval.id, approved: true });
  await until(() => view.texts("assistant").at(-1) === "after" && view.status() === "ready");
  const states = view.chat.messages.at(-1).parts.filter((p) => p.toolCallId).map((p) => [p.toolName, p.state]);
  assert.deepEqual(states, [["echo", "output-available"], ["pick_file", "output-available"]]);
  assert.equal(view.chat.messages.length, 2);
  view.close();
});

test("an error, and regenerate", async () => {
  const view = page();
  await until(() => view.resumed);
  await view.chat.sendMessage({ text: "/say before\n/fail agent_error" });
  await until(() => view.chat.status === "error" && view.texts("assistant").at(-1) === "before");
  assert.match(view.chat.error.message, /./);
  await view.chat.regenerate();
  await until(() => view.ends.length === 2 && view.chat.messages.length === 2 && view.chat.status === "error");
  view.close();
});

test("a stop button", async () => {
  const view = page();
  await until(() => view.resumed);
  void view.chat.sendMessage({ text: "/stream 100000 20" });
  await until(() => view.texts("assistant").at(-1)?.length > 20);
  assert.equal((await fetch(`${base}/ai-sdk/demo/${view.id}/stop`, { method: "POST" })).status, 202);
  await settled(view, 1);
  assert.equal(view.chat.error, undefined);
  await view.chat.sendMessage({ text: "/say next" });
  await until(() => view.texts("assistant").at(-1) === "next");
  view.close();
});
