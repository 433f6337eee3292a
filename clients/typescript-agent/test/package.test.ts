// The types are those of schemas/agent, the package contains what a user needs, and the examples of its README run.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

const root = join(import.meta.dirname, "..");
const repository = join(root, "../..");
const execute = promisify(execFile);

function temporary(): string {
  const dir = mkdtempSync(join(tmpdir(), "agentbus-agent-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return dir;
}

test("the types accept the examples of the contract", async () => {
  const dir = temporary();
  const examples = join(repository, "schemas/agent/examples");
  const chunks = readdirSync(examples).map((file) => readFileSync(join(examples, file), "utf8"));
  const archive = readFileSync(join(repository, "pkg/backend/httpagent/testdata/request.txtar"), "utf8");
  const requests = archive.split(/^-- .*\.json --$/m).slice(1);
  expect(requests).not.toHaveLength(0);
  const lines = [
    `import type { Chunk, TurnRequest } from ${JSON.stringify(join(root, "dist/index.js"))};`,
    ...chunks.map((example, i) => `export const chunk${i} = ${example.trim()} satisfies Chunk;`),
    ...requests.map((example, i) => `export const request${i} = ${example.trim()} satisfies TurnRequest;`),
  ];
  writeFileSync(join(dir, "examples.mts"), lines.join("\n"));
  const options = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022"];
  await execute(join(root, "node_modules/.bin/tsc"), [...options, "examples.mts"], { cwd: dir });
});

test("the type has every chunk of the contract", () => {
  const schema = JSON.parse(readFileSync(join(repository, "schemas/agent/chunk.json"), "utf8")) as { oneOf: { title: string }[] };
  const source = readFileSync(join(root, "src/contract.ts"), "utf8").split("export type Chunk =")[1]!;
  const types = [...source.matchAll(/^ {2}\| \{ type: ((?:"\w+"(?: \| )?)+)/gm)].flatMap(([, names]) => names!.match(/\w+/g)!);
  expect(types.toSorted()).toEqual(schema.oneOf.map(({ title }) => title).toSorted());
});

test("the package contains what a user needs, and no more", async () => {
  const { stdout } = await execute("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: root });
  const { files } = JSON.parse(stdout)[0] as { files: { path: string }[] };
  const paths = files.map((file) => file.path);
  expect(paths.filter((path) => !/^dist\/[a-z]+\.(js|d\.ts)$/.test(path)).toSorted()).toEqual(["LICENSE", "README.md", "package.json"]);
  for (const entry of ["index", "node"]) expect(paths).toContain(`dist/${entry}.js`);
});

test("the example of the README runs", async () => {
  const dir = temporary();
  const installed = join(dir, "node_modules/@agentbus/agent");
  mkdirSync(installed, { recursive: true });
  for (const file of ["dist", "package.json"]) cpSync(join(root, file), join(installed, file), { recursive: true });
  for (const name of ["standardwebhooks", "@stablelib", "fast-sha256"]) symlinkSync(join(root, "node_modules", name), join(dir, "node_modules", name));
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address() as { port: number };
  await once(free.close(), "close");
  const example = readFileSync(join(root, "README.md"), "utf8").split("```js\n")[1]!.split("```")[0]!;
  writeFileSync(join(dir, "agent.mjs"), example.replace("9000", String(port)));
  const node = spawn("node", ["agent.mjs"], { cwd: dir, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void node.kill());
  await once(node.stdout, "data");
  const turn = { requestId: "req_1", threadId: "thr_1", agentId: "a", attempt: 1, known: 0, tools: [] };
  const messages = [{ role: "user", content: [{ type: "text", text: "deploy it" }] }];
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    method: "POST",
    headers: { "Agentbus-Agent-Version": "1" },
    body: JSON.stringify({ ...turn, messages }),
  });
  expect((await response.text()).split("\n")[0]).toBe('{"type":"approval","id":"d1","name":"deploy","args":{"to":"production"}}');
});
