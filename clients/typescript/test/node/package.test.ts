// What the package contains, how large it is, and the examples of its README.
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, inject, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const run = promisify(execFile);

// bundle returns the size of what a page loads, compressed, and the packages in it.
async function bundle(contents: string, external: string[] = []) {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: root },
    alias: { "@agentbus/client": join(root, "dist/index.js"), "@agentbus/client/react": join(root, "dist/react.js") },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    external,
    write: false,
    metafile: true,
  });
  const inputs = Object.entries(Object.values(metafile.outputs)[0]!.inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
  return { size: gzipSync(outputFiles[0]!.contents).length, inputs: inputs.map(([name]) => name).join() };
}

test("the client is small, and does not load zod", async () => {
  const { size, inputs } = await bundle(`import { AgentClient } from "@agentbus/client"; console.log(AgentClient)`);
  expect(inputs).not.toContain("zod");
  expect(size).toBeLessThan(6_000);
});

test("everything without zod is within the budget", async () => {
  const { size } = await bundle(`export * from "@agentbus/client"; export * from "@agentbus/client/react"`, ["zod", "react"]);
  expect(size).toBeLessThan(10_000);
});

test("the package contains what a user needs, and no more", async () => {
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: root });
  const { files } = JSON.parse(stdout)[0] as { files: { path: string }[] };
  const other = files.map((file) => file.path).filter((path) => !/^dist\/[a-z]+\.(js|d\.ts)$/.test(path));
  expect(other.toSorted()).toEqual(["LICENSE", "README.md", "package.json"]);
  for (const entry of ["index", "react"]) expect(files.map((file) => file.path)).toContain(`dist/${entry}.js`);
});

test("the examples of the README run and compile", async () => {
  const readme = readFileSync(join(root, "README.md"), "utf8").replaceAll("http://127.0.0.1:8080", inject("gateways")[0]!);
  const example = (language: string) => readme.split(`\`\`\`${language}\n`)[1]!.split("```")[0]!;
  const dir = mkdtempSync(join(tmpdir(), "agentbus-client-"));
  try {
    const installed = join(dir, "node_modules/@agentbus/client");
    mkdirSync(join(dir, "node_modules/@agentbus"), { recursive: true });
    for (const file of ["dist", "package.json"]) cpSync(join(root, file), join(installed, file), { recursive: true });
    for (const name of ["zod", "react", "@types"]) symlinkSync(join(root, "node_modules", name), join(dir, "node_modules", name));
    writeFileSync(join(dir, "example.mjs"), example("js"));
    const { stdout } = await run("node", ["example.mjs"], { cwd: dir });
    expect(stdout).toContain("42");
    writeFileSync(join(dir, "chat.tsx"), example("tsx"));
    const options = ["--strict", "--noEmit", "--jsx", "react-jsx", "--module", "nodenext", "--target", "es2022", "--types", "react"];
    await run(join(root, "node_modules/.bin/tsc"), [...options, "chat.tsx"], { cwd: dir });
  } finally {
    rmSync(dir, { recursive: true });
  }
});
