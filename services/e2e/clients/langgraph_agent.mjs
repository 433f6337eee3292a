// A graph for the tests of the backend langgraph. What the user says decides what it does.
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, ToolMessage } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";

// Model is a model that streams what `answer` says.
class Model extends BaseChatModel {
  _llmType() { return "test"; }

  async _generate() { throw new Error("the model streams"); }

  async * _streamResponseChunks(messages, options, run) {
    const response_metadata = { model_name: "graph-model" };
    for await (const fields of answer(messages, options.signal)) {
      const chunk = new ChatGenerationChunk({ message: new AIMessageChunk({ content: "", response_metadata, ...fields }), text: fields.content ?? "" });
      yield chunk;
      await run?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}

const said = (messages) => messages.findLast((m) => m.getType() === "human").text;
const usage_metadata = { input_tokens: 10, output_tokens: 4, total_tokens: 14 };

// call is a call whose arguments come in two parts.
function* call(id, name, args) {
  const text = JSON.stringify(args);
  yield { tool_call_chunks: [{ index: 0, id, name, args: text.slice(0, 3), type: "tool_call_chunk" }] };
  yield { tool_call_chunks: [{ index: 0, args: text.slice(3), type: "tool_call_chunk" }], usage_metadata };
}

const pause = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); reject(new Error("aborted")); });
});

let calls = 0;

async function* answer(messages, signal) {
  const last = messages.at(-1);
  if (last.getType() === "tool") {
    yield { content: last.name === "read_file" ? "all " : `${last.name}: ` };
    return yield { content: last.name === "read_file" ? "done" : last.text, usage_metadata };
  }
  switch (said(messages)) {
    case "everything":
      yield { additional_kwargs: { reasoning_content: "hm" } };
      return yield* call(`t${++calls}`, "read_file", { path: "a" });
    case "deploy":
      return yield* call(`t${++calls}`, "deploy", { to: "prod" });
    case "slow":
      yield { content: "begun" };
      return await pause(60_000, signal);
    case "cut":
      yield { content: "half" };
      await pause(500, signal);
      return yield { content: " and whole", usage_metadata };
    case "fail":
      throw new Error("no such customer");
    default:
      yield { content: messages.map((m) => `${m.getType()}:${m.text}`).join(" "), usage_metadata };
  }
}

const model = new Model({});
const tools = new ToolNode([
  tool(({ path }) => `the text of ${path}`, { name: "read_file", schema: { type: "object", properties: { path: { type: "string" } } } }),
  tool(() => "deployed", { name: "deploy", schema: { type: "object" } }),
]);

// review asks for an approval as LangChain's middleware for a human in the loop does.
function review(state) {
  const { id, name, args } = state.messages.at(-1).tool_calls[0];
  const { decisions: [decision] } = interrupt({
    action_requests: [{ name, args, description: "deploys" }], review_configs: [{ action_name: name, allowed_decisions: ["approve", "reject"] }],
  });
  return decision.type === "approve" ? {} : { messages: [new ToolMessage({ tool_call_id: id, name, content: decision.message, status: "error" })] };
}

const ask = (question) => () => ({ notes: [`${question} ${JSON.stringify(interrupt({ question }))}`] });

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  notes: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }),
  todos: Annotation({ reducer: (_, b) => b, default: () => [] }),
});

const next = ({ messages }) => {
  const last = messages.at(-1);
  if (last.getType() === "tool") return "agent";
  if (last.tool_calls?.length > 0) return last.tool_calls[0].name === "deploy" ? "review" : "tools";
  return END;
};

export const graph = new StateGraph(State)
  .addNode("agent", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addNode("plan", (_, config) => {
    config.writer?.({ type: "shop.cart", data: { items: 2 } });
    return { todos: [{ content: "read", status: "completed" }, { content: "answer", status: "pending" }] };
  })
  .addNode("tools", tools)
  .addNode("review", review)
  .addNode("when", ask("When?"))
  .addNode("where", ask("Where?"))
  .addNode("sum", ({ notes }) => ({ messages: [{ role: "assistant", content: notes.join(", ") }] }))
  .addConditionalEdges(START, ({ messages }) => ({ everything: "plan", ask: ["when", "where"] })[said(messages)] ?? "agent")
  .addEdge("plan", "agent")
  .addConditionalEdges("agent", next)
  .addConditionalEdges("review", ({ messages }) => (messages.at(-1).getType() === "tool" ? "agent" : "tools"))
  .addEdge("tools", "agent")
  .addEdge(["when", "where"], "sum")
  .addEdge("sum", END)
  .compile();
