// TCP proxies that cut connections.
import net from "node:net";

// cutting listens on a free port. Connections go to the first URL until `cuts` of them were cut after a part of a response that
// has the text, and then to the last URL.
export async function cutting(urls, cuts, text = "event: messages") {
  const proxy = { cuts: 0, url: "", close: undefined };
  const open = new Set();
  const server = net.createServer((client) => {
    const target = new URL(proxy.cuts < cuts ? urls[0] : urls.at(-1));
    const upstream = net.connect(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => { open.delete(socket); client.destroy(); upstream.destroy(); });
    }
    client.pipe(upstream);
    upstream.on("data", (data) => {
      client.write(data, () => {
        if (proxy.cuts < cuts && data.includes(text)) {
          proxy.cuts++;
          client.resetAndDestroy();
        }
      });
    });
  });
  await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  proxy.close = () => new Promise((resolve) => { server.close(resolve); for (const socket of open) socket.destroy(); });
  return proxy;
}

// cutter is a proxy that cuts the connection after some bytes of the response: by a reset, or as if the response had ended.
export async function cutter(url, after, cut = (socket) => socket.destroy()) {
  const target = new URL(url);
  const server = net.createServer((client) => {
    const upstream = net.connect(Number(target.port), target.hostname);
    let bytes = 0;
    client.pipe(upstream);
    upstream.on("data", (chunk) => {
      bytes += chunk.length;
      client.write(chunk);
      if (bytes > after) {
        cut(client);
        upstream.destroy();
      }
    });
    const ignore = () => {};
    client.on("error", ignore);
    upstream.on("error", ignore);
    upstream.on("end", () => client.end());
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
