// An MCP server on the published SDK whose tools emit events, change the list of tools, and end its process.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "own", version: "1.0.0" });
const text = (value) => ({ content: [{ type: "text", text: value }] });

server.registerTool("build", { description: "Builds.", inputSchema: {} }, async (_, extra) => {
  const notify = (params) =>
    extra.sendNotification({ method: "notifications/progress", params: { progressToken: extra._meta.progressToken, ...params } });
  await notify({ progress: 40, _meta: { "agentbus/event": { type: "build_progress", data: { percent: 40 } } } });
  await notify({ progress: 50, message: '::event {"type":"environment_input","data":{"content":"a line of the log"}}' });
  await notify({ progress: 60, _meta: { "agentbus/event": { type: "done" } } });
  await notify({ progress: 100, message: "built" });
  return text("the build");
});

server.registerTool("grow", { description: "Adds a tool.", inputSchema: {} }, async () => {
  if (!server.grown) server.grown = server.registerTool("more", { description: "Is new.", inputSchema: {} }, async () => text("more"));
  return text("grown");
});

server.registerTool("shrink", { description: "Removes that tool in its own call.", inputSchema: {} }, async () => {
  server.grown?.remove();
  server.grown = undefined;
  return text("shrunk");
});

server.registerTool("die", { description: "Ends the process.", inputSchema: { n: z.number().optional() } }, async () => process.exit(3));

await server.connect(new StdioServerTransport());
