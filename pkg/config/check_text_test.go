package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend/catalog"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

// whole is known with all checks; the secret TOKEN exists.
func whole() config.Known {
	k := known
	k.Script, k.Places = catalog.CheckScript, builtin.Places
	k.Secret = func(name string) error {
		if name == "TOKEN" {
			return nil
		}
		return fmt.Errorf("the environment has no secret %s", name)
	}
	return k
}

func TestTextsAreChecked(t *testing.T) {
	t.Parallel()
	const agent, tool = "agents:\n  a: {backend: scripted}\n", "tools:\n  t:\n    description: d\n    schema: {type: object, properties: {city: {type: string}}}\n"
	tests := map[string]struct{ file, want string }{
		"a script with a misspelt command": {
			"agents:\n  a:\n    backend: scripted\n    script: |\n      /think hm\n      /sya hello\n",
			`4:5: agents.a.script: script line 2: "/sya" is not a command; there are `,
		},
		"a script whose call has no JSON": {
			"agents:\n  a: {backend: scripted, script: '/tool echo {'}\n",
			"2:26: agents.a.script: script line 1: the arguments of echo are not JSON",
		},
		"no model of OpenAI": {
			"agents:\n  a:\n    backend: openai\n", "2:3: agents.a: has no model; add the name of one, such as model: " + config.DefaultOpenAIModel,
		},
		"no model of Anthropic": {
			"agents:\n  a:\n    backend: anthropic\n", "2:3: agents.a: has no model; add the name of one, such as model: " + config.DefaultAnthropicModel,
		},
		"a key": {
			"agents:\n  a:\n    backend: openai\n    model: m\n    apiKey: sk-1\n",
			`5:5: agents.a: unknown field "apiKey"; write apiKeyEnv: NAME, where the environment variable NAME contains the key, and remove the key`,
		},
		"a key in another spelling": {
			"agents:\n  a: {backend: openai, model: m, api_key: sk-1}\n", `2:34: agents.a: unknown field "api_key"; write apiKeyEnv: NAME`,
		},
		"a prompt with a place that cannot be read": {
			"agents:\n  a:\n    backend: scripted\n    system: You help {context.user name}.\n",
			`4:5: agents.a.system: "{context.user name}" is not a value of the context; write {context.NAME}`,
		},
		"an agent that does not exist": {
			"agents:\n  a: {backend: scripted}\n  b:\n    backend: scripted\n    agents: [c, aa]\n", `5:17: agents.b.agents[1]: unknown agent "aa"`,
		},
		"an argument of the URL that the schema does not have": {
			agent + tool + "    http: {url: 'https://x.example/{town}'}\n",
			"7:12: tools.t.http.url: {town} is not an argument: schema.properties does not have it; add town there",
		},
		"a misspelt argument of a query": {
			agent + tool + "    http:\n      url: https://x.example/\n      query: {q: '{ctiy}'}\n",
			"9:15: tools.t.http.query.q: {ctiy} is not an argument: schema.properties does not have it; did you mean {city}?",
		},
		"a misspelt argument deep in a body": {
			agent + tool + "    http:\n      url: https://x.example/\n      method: POST\n      body:\n        to: [{name: '{cty}'}]\n",
			"11:15: tools.t.http.body.to[0].name: {cty} is not an argument",
		},
		"an argument of a program": {
			agent + tool + "    command: {argv: [wc, '{file}']}\n", "7:26: tools.t.command.argv[1]: {file} is not an argument",
		},
		"an argument without any schema": {
			agent + "tools:\n  t: {description: d, http: {url: 'https://x.example/{id}'}}\n", "tools.t.http.url: {id} is not an argument",
		},
		"a brace without an end": {
			agent + tool + "    http:\n      url: https://x.example/\n      headers: {X-A: '{city'}\n", "9:17: tools.t.http.headers.X-A: ",
		},
		"a missing secret of a header": {
			agent + tool + "    http:\n      url: https://x.example/\n      headers:\n        Authorization: Bearer ${SECRET}\n",
			"10:9: tools.t.http.headers.Authorization: the environment has no secret SECRET",
		},
		"a missing secret of a program": {
			agent + tool + "    command:\n      argv: [wc]\n      env: {A: '${SECRET}'}\n", "9:13: tools.t.command.env.A: the environment has no secret SECRET",
		},
		"a missing secret of an MCP server": {
			agent + "mcp:\n  m:\n    url: https://x.example/mcp\n    headers: {A: 'Bearer ${SECRET}'}\n", "6:15: mcp.m.headers.A: the environment has no secret SECRET",
		},
		"a schema that is not one": {
			agent + "tools:\n  t:\n    description: d\n    schema: {type: object, properties: {a: {type: strin}}}\n    http: {url: https://x.example/}\n",
			"6:5: tools.t.schema: schema of tool t: ",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "agentbus.yaml")
			if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(path, config.Config{}, whole())
			all, ok := errors.AsType[config.Mistakes](err)
			if !ok || !strings.Contains(err.Error(), path+":") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if name == "an agent that does not exist" {
				return // neither agent exists
			}
			if len(all) != 1 {
				t.Errorf("got %d mistakes, want 1:\n%v", len(all), err)
			}
		})
	}
}

func TestTextsThatAreRight(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agentbus.yaml")
	file := `demo: true
agents:
  script: {backend: scripted, script: "/say hello", agents: [demo, model]}
  model: {backend: openai, model: m, apiKeyEnv: MISSING, system: "{context.user.name} writes {json} and {{"}
  program: {backend: cli, workspace: work, cli: {command: x}}
tools:
  closed:
    description: d
    schema: {type: object, properties: {city: {type: string}}, additionalProperties: false}
    http: {url: "https://x.example/{city}/{context.tenant}", query: {a: "{{town}}"}, headers: {A: "${TOKEN}"}}
  open:
    description: d
    schema: {type: object, additionalProperties: {type: string}}
    http: {url: "https://x.example/{any}"}
  composed:
    description: d
    schema: {type: object, allOf: [{properties: {id: {type: string}}}]}
    command: {argv: [wc], stdin: "{id}"}
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(path, config.Config{}, whole())
	if err != nil {
		t.Fatal(err)
	}
	if is, want := got.Agents["program"].Workspace, filepath.Join(filepath.Dir(path), "work"); is != want {
		t.Errorf("the workspace: got %s, want %s", is, want)
	}
}
