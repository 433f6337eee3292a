// A server of an agent in Node.js.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeStream } from "node:stream/web";
import { type Agent, createHandler, type HandlerOptions } from "./index.js";

export interface ServeOptions extends HandlerOptions {
  port: number;
  /** Default: 127.0.0.1. */
  host?: string;
}

/** Serves an agent on every path of a port. It resolves when the server listens. */
export async function serve(agent: Agent, { port, host = "127.0.0.1", ...options }: ServeOptions): Promise<Server> {
  const handler = createHandler(agent, options);
  const server = createServer((request, response) => {
    respond(handler, request, response).catch(() => response.destroy()); // agentbus has closed the connection
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  return server;
}

async function respond(handler: (request: Request) => Promise<Response>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, headers, body } = await handler(toRequest(request));
  response.writeHead(status, Object.fromEntries(headers));
  response.flushHeaders();
  if (body) await pipeline(Readable.fromWeb(body as NodeStream), response);
  else response.end();
}

function toRequest(request: IncomingMessage): Request {
  const { method = "GET", url = "/" } = request;
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) headers.set(name, String(value));
  const body = method === "GET" || method === "HEAD" ? {} : { body: Readable.toWeb(request) as unknown as ReadableStream, duplex: "half" };
  return new Request(new URL(url, "http://localhost"), { method, headers, ...body });
}
