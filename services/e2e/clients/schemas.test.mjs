// The schemas are valid for the published tools: the OpenAPI documents for redocly and openapi-typescript, the JSON Schemas for
// ajv in its strict mode.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { test } from "./harness.mjs";

const folder = resolve("../../../schemas");

const files = readdirSync(folder, { recursive: true }).sort();

// run runs a program of node_modules, and throws what it wrote if it fails.
async function run(program, ...args) {
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  await promisify(execFile)(join("node_modules", ".bin", program), args, { env }).catch((error) => {
    throw new Error(`${program}: ${error.message}\n${error.stdout}${error.stderr}`);
  });
}

// strict returns an ajv that has every schema, and those of the files.
async function strict() {
  const ajv = new Ajv2020({ strict: true, allErrors: true });
  addFormats.default(ajv);
  const schemas = files.filter((file) => file.endsWith(".json") && basename(dirname(file)) !== "examples");
  for (const file of schemas) ajv.addSchema(await json(file));
  return { ajv, schemas };
}

const json = async (file) => JSON.parse(await readFile(join(folder, file), "utf8"));

const address = (file) => `https://github.com/agentbus/agentbus/schemas/${file}`;

test("redocly accepts every OpenAPI document", async () => {
  const documents = files.filter((file) => basename(file) === "openapi.yaml");
  const config = await readFile("testdata/redocly.yaml", "utf8");
  for (const file of documents) assert.ok(config.includes(`schemas/${file}\n`), `redocly.yaml does not list ${file}`);
  await run("redocly", "lint", "--config=testdata/redocly.yaml", "--format=stylish");
});

test("ajv accepts every schema in its strict mode", async () => {
  const { ajv, schemas } = await strict();
  assert.ok(schemas.length > 60, `${schemas.length} schemas`);
  for (const file of schemas) assert.doesNotThrow(() => ajv.getSchema(address(file)), file);
});

test("ajv accepts every example of its schema, and of the union of the events", async () => {
  const { ajv, schemas } = await strict();
  const union = ajv.getSchema(address("event.json"));
  const examples = files.filter((file) => file.endsWith(".json") && !schemas.includes(file));
  assert.ok(examples.length > 60, `${examples.length} examples`);
  for (const file of examples) {
    const parent = dirname(dirname(file));
    const validate = ajv.getSchema(address(join(parent, `${basename(file).split(".")[0]}.json`)));
    const example = await json(file);
    assert.ok(validate(example), `${file}: ${ajv.errorsText(validate.errors)}`);
    if (parent === "events") assert.ok(union(example), `${file}: ${ajv.errorsText(union.errors)}`);
  }
});

test("ajv and the server agree on the bodies of requests", async () => {
  const { ajv } = await strict();
  const validate = ajv.getSchema(address("request.json"));
  const bodies = JSON.parse(await readFile("testdata/requests.json", "utf8"));
  assert.ok(Object.keys(bodies.accepted).length > 20 && Object.keys(bodies.refused).length > 50);
  for (const [name, body] of Object.entries(bodies.accepted)) assert.ok(validate(body), `${name}: ${ajv.errorsText(validate.errors)}`);
  for (const [name, body] of Object.entries(bodies.refused)) assert.ok(!validate(body), `${name} is accepted`);
});

test("a switch over the type that openapi-typescript generates compiles", async () => {
  const dir = await mkdtemp(join(tmpdir(), "agentbus-schemas-"));
  try {
    await run("openapi-typescript", join(folder, "openapi.yaml"), "--output", join(dir, "schema.d.ts"));
    await copyFile("testdata/events.ts", join(dir, "events.ts"));
    await run("tsc", "--strict", "--noEmit", "--module", "esnext", "--moduleResolution", "bundler", join(dir, "events.ts"));
  } finally {
    await rm(dir, { recursive: true });
  }
});
