// Gives the tests the gateways, and a proxy that cuts each connection and sends each one to the next gateway.
import { createServer, type Server, connect } from "node:net";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  export interface ProvidedContext {
    gateways: string[];
    cutting: string;
  }
}

const limit = 8000; // bytes of responses that a connection lets pass

export default async function setup(project: TestProject) {
  const gateways = process.env.AGENTBUS_URLS?.split(",") ?? ["http://127.0.0.1:8080"];
  const proxy = await cuttingProxy(gateways.map((url) => new URL(url)));
  const address = proxy.address();
  if (address === null || typeof address === "string") throw new Error("the proxy has no port");
  project.provide("gateways", gateways);
  project.provide("cutting", `http://127.0.0.1:${address.port}`);
  return () => new Promise<void>((resolve) => proxy.close(() => resolve()));
}

async function cuttingProxy(targets: URL[]): Promise<Server> {
  let connections = 0;
  const server = createServer((client) => {
    const target = targets[connections++ % targets.length]!;
    const gateway = connect(Number(target.port), target.hostname);
    let left = limit;
    const end = () => {
      client.destroy();
      gateway.destroy();
    };
    for (const socket of [client, gateway]) socket.on("error", end).on("close", end);
    client.on("data", (data) => gateway.write(data));
    gateway.on("data", (data) => {
      left -= data.length;
      client.write(data.subarray(0, Math.max(left + data.length, 0)), () => left <= 0 && end());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}
