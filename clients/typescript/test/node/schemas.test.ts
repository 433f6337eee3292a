// The validators and schemas/ are one contract: both accept and refuse the same values.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import * as client from "../../src/index.js";

const folder = join(import.meta.dirname, "../../../../schemas");
const read = (file: string) => readFileSync(join(folder, file), "utf8");
const json = (file: string) => JSON.parse(read(file)) as Record<string, unknown>;
const openapi = parse(read("openapi.yaml"));

const ajv = new Ajv2020({ strict: false });
(addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
const events = readdirSync(join(folder, "events")).filter((file) => file.endsWith(".json"));
for (const file of ["common.json", "request.json", "event.json", ...events.map((name) => `events/${name}`)]) ajv.addSchema(json(file));

const schemaOf = (file: string) => ajv.getSchema(`https://github.com/agentbus/agentbus/schemas/${file}`) as ValidateFunction;
const names: string[] = [...client.EVENT_TYPES, ...client.EXTENDED_EVENT_TYPES];

// mutants yields the value with one change each: a member that is missing, or has another type or value.
function* mutants(value: unknown): Generator<unknown> {
  for (const other of [null, "", "no such value", "a b", -1, 0.5, 3, true, {}, [], [{}]]) yield other;
  if (typeof value !== "object" || value === null) return;
  for (const key of Object.keys(value)) {
    const at = key as keyof typeof value;
    const without: Record<string, unknown> | unknown[] = Array.isArray(value) ? [...value] : { ...value };
    if (Array.isArray(without)) without.splice(Number(key), 1);
    else delete without[key];
    yield without;
    for (const mutant of mutants(value[at])) yield Array.isArray(value) ? value.with(Number(key), mutant) : { ...value, [key]: mutant };
  }
  if (!Array.isArray(value)) yield { ...value, unknownMember: 1 };
}

function agree(schema: ValidateFunction, validator: { safeParse: (value: unknown) => { success: boolean } }, value: unknown) {
  const wants = schema(value);
  if (validator.safeParse(value).success !== wants) {
    expect.fail(`${wants ? "the schema" : "the validator"} alone accepts ${JSON.stringify(value)}: ${JSON.stringify(schema.errors)}`);
  }
}

test("the events are those that the API offers", () => {
  expect(names.toSorted()).toEqual(openapi.components.schemas.EventName.enum.toSorted());
  const include = openapi.components.parameters.include.schema.items.enum;
  expect(["extended", ...client.EXTENDED_EVENT_TYPES].toSorted()).toEqual(include.toSorted());
});

test("the error codes are those of the API", () => {
  expect(client.ErrorCodeSchema.options.toSorted()).toEqual(openapi.components.schemas.ErrorCode.enum.toSorted());
});

describe("events", () => {
  const examples = readdirSync(join(folder, "events/examples")).filter((file) => names.includes(file.split(".")[0]!));
  test("each has an example", () => expect(new Set(examples.map((file) => file.split(".")[0]))).toEqual(new Set(names)));
  test.each(examples)("%s and its mutants", (file) => {
    const name = file.split(".")[0]!;
    const example = json(`events/examples/${file}`);
    expect(client.AgentEventSchema.parse(example)).toEqual(example); // unknown members are kept
    expect(client.AgentEventSchema.parse({ ...example, unknownMember: 1 })).toEqual({ ...example, unknownMember: 1 });
    for (const mutant of mutants(example)) agree(schemaOf(`events/${name}.json`), client.AgentEventSchema, mutant);
  });
});

describe("requests", () => {
  const image = { type: "image", url: "https://example.com/a.png", mediaType: "image/png" };
  const requests: Record<string, unknown> = {
    "a text": { messages: [{ id: "m1", role: "user", content: "hi" }] },
    parts: { messages: [{ role: "user", content: [{ type: "text", text: "hi" }, image, { type: "file", data: "aGk=", name: "a.txt" }] }] },
    "action results": {
      threadId: "thr_1",
      messages: [],
      context: { model: "m", user: { id: 1 }, actionResults: [{ actionId: "act_1", status: "success", result: { a: [1] }, error: "e" }] },
    },
    options: {
      messages: [{ role: "user", content: "hi" }],
      tools: [{ name: "pick", description: "d", schema: { type: "object" } }],
      options: { temperature: 1, topP: 0.5, stop: ["x"], maxTokens: 10, toolChoice: { mode: "tool", name: "pick" }, responseFormat: { type: "json_schema", name: "n", schema: {}, strict: true } },
    },
  };
  test.each(Object.entries(requests))("%s and their mutants", (_, request) => {
    expect(client.AgentRequestSchema.parse(request)).toEqual(request);
    for (const mutant of mutants(request)) agree(schemaOf("request.json"), client.AgentRequestSchema, mutant);
  });
});
