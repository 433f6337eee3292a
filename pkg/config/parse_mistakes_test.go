package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
)

func TestParseNamesEveryMistake(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ file, want string }{
		"a misspelt field": {
			"agents:\n  a:\n    backend: scripted\n    modle: x\n",
			`4:5: agents.a: unknown field "modle"; did you mean "model"?`,
		},
		"a field nothing is like": {
			"gateway:\n  zzzzzzzzzz: 1\n",
			`2:3: gateway: unknown field "zzzzzzzzzz"; use one of admissionTimeout, cors, heartbeat, identity, limits, maxBody, natsAgents, quotas, rateLimit, sessions, streamTimeout, trustTraceparent, webhooks`,
		},
		"a field in the wrong case": {
			"agents:\n  a: {backend: scripted, askuser: true}\n",
			`2:26: agents.a: unknown field "askuser"; did you mean "askUser"?`,
		},
		"a misspelt backend": {
			"agents:\n  a:\n    backend: scriptd\n",
			`3:5: agents.a.backend: unknown backend "scriptd"; did you mean "scripted"?`,
		},
		"no backend": {
			"agents:\n  a:\n    model: x\n",
			`2:3: agents.a: has no backend; add one, such as backend: scripted`,
		},
		"a misspelt tool of an agent": {
			"agents:\n  a:\n    backend: scripted\n    tools:\n      - clock\n      - calculater\n",
			`6:9: agents.a.tools[1]: unknown tool "calculater"; did you mean "calculator"?`,
		},
		"a tool twice": {
			"agents:\n  a: {backend: scripted, tools: [clock, clock]}\n",
			`2:41: agents.a.tools[1]: tool "clock" is in the list twice; remove one`,
		},
		"a model twice": {
			"agents:\n  a: {backend: scripted, models: [m, m]}\n",
			`2:38: agents.a.models[1]: model "m" is in the list twice; remove one`,
		},
		"a model without a name": {
			"agents:\n  a: {backend: scripted, models: [\"\"]}\n",
			`2:35: agents.a.models[0]: is empty; write the name of a model, or "*" for any`,
		},
		"a misspelt tool": {
			"tools:\n  clok: {}\n",
			`2:3: tools.clok: unknown tool "clok"; did you mean "clock"?`,
		},
		"a number where a duration belongs": {
			"gateway:\n  heartbeat: 15\n",
			`2:14: gateway.heartbeat: is 15; a duration belongs here, such as 30s or 10m`,
		},
		"a duration without a unit": {
			"gateway:\n  heartbeat: \"15\"\n",
			`2:14: gateway.heartbeat: is the text "15"; a duration belongs here, such as 30s or 10m`,
		},
		"a text where a number belongs": {
			"gateway:\n  maxBody: big\n",
			`2:12: gateway.maxBody: is the text "big"; a whole number belongs here`,
		},
		"a fraction where a whole number belongs": {
			"gateway:\n  maxBody: 1.5\n",
			`2:12: gateway.maxBody: is 1.5; a whole number belongs here`,
		},
		"a text where a price belongs": {
			"models:\n  m: {price: {input: cheap}}\n",
			`2:22: models.m.price.input: is the text "cheap"; a number belongs here`,
		},
		"a negative price": {
			"models:\n  m: {price: {input: -1}}\n",
			`2:15: models.m.price.input: must be a price in US dollars for a million tokens, 0 or more`,
		},
		"a price that is not a number": {
			"models:\n  m: {price: {input: .nan}}\n",
			`2:22: models.m.price.input: is .nan; a number belongs here`,
		},
		"a number where a text belongs": {
			"agents:\n  a: {backend: scripted, model: 4}\n",
			`2:33: agents.a.model: is 4; a text belongs here, write "4"`,
		},
		"a word where true or false belongs": {
			"agents:\n  a: {backend: scripted, askUser: yep}\n",
			`2:35: agents.a.askUser: is the text "yep"; true or false belongs here`,
		},
		"a list where a mapping belongs": {
			"agents: [demo]\n",
			`1:9: agents: is a list; a mapping of names to values belongs here`,
		},
		"a text where a list belongs": {
			"agents:\n  a: {backend: scripted, tools: clock}\n",
			`2:33: agents.a.tools: is the text "clock"; a list belongs here, such as [a, b]`,
		},
		"a field twice": {
			"gateway:\n  heartbeat: 1s\n  heartbeat: 2s\n",
			`3:3: gateway.heartbeat: is here twice, first in line 2; remove one`,
		},
		"an agent twice": {
			"agents:\n  a: {backend: scripted}\n  a: {backend: scripted}\n",
			`3:3: agents.a: is here twice, first in line 2; remove one`,
		},
		"a name that cannot be a subject": {
			"agents:\n  a.b: {backend: scripted}\n",
			`2:3: agents.a.b: the name of an agent has letters, digits, _ and - only, at most 64`,
		},
		"a negative limit": {
			"agents:\n  a: {backend: scripted, limits: {turns: -1}}\n",
			`2:35: agents.a.limits.turns: must not be negative; leave it out for the default`,
		},
		"a wrong onDisconnect": {
			"agents:\n  a: {backend: scripted, onDisconnect: abrot}\n",
			`2:26: agents.a.onDisconnect: unknown value "abrot"; did you mean "abort"?`,
		},
		"a misspelt onBusy": {
			"agents:\n  a: {backend: scripted, onBusy: que}\n",
			`2:26: agents.a.onBusy: unknown value "que"; did you mean "queue"?`,
		},
		"a wrong onBusy": {
			"agents:\n  a: {backend: scripted, onBusy: wait-for-it}\n",
			`2:26: agents.a.onBusy: unknown value "wait-for-it"; use one of interrupt, queue, reject`,
		},
		"a wrong onCrash": {
			"agents:\n  a: {backend: scripted, onCrash: retry-it}\n",
			`2:26: agents.a.onCrash: unknown value "retry-it"; use one of error, restart`,
		},
		"a wrong onUnknown": {
			"agents:\n  a: {backend: scripted, onUnknown: guess}\n",
			`2:26: agents.a.onUnknown: unknown value "guess"; use one of ask, tell`,
		},
		"a queue below zero": {
			"agents:\n  a: {backend: scripted, queue: -1}\n",
			`2:26: agents.a.queue: must not be negative; leave it out for the default`,
		},
		"a queue that is too long": {
			"agents:\n  a: {backend: scripted, queue: 101}\n",
			`2:26: agents.a.queue: must be at most 100; with a long queue, later requests are better rejected with thread_busy`,
		},
		"a key where its variable belongs": {
			"agents:\n  a: {backend: openai, model: m, apiKeyEnv: sk-123}\n",
			`2:34: agents.a.apiKeyEnv: is the name of an environment variable, never the key itself`,
		},
		"a base URL without a scheme": {
			"agents:\n  a: {backend: openai, model: m, baseURL: localhost:80}\n",
			`2:34: agents.a.baseURL: "localhost:80" is not a URL; write one such as https://api.example.com/v1`,
		},
		"an invalid share of the window": {
			"agents:\n  a: {backend: openai, model: m, compressAt: 80}\n",
			`2:34: agents.a.compressAt: must be a share of the context window from 0 to 1, such as 0.8`,
		},
		"a client tool with the name of a server tool": {
			"agents:\n  a: {backend: openai, model: m, tools: [clock], clientTools: [{name: clock}]}\n",
			`2:65: agents.a.clientTools[0].name: "clock" is a server tool of this agent too; give one another name`,
		},
		"a client tool with the name of one of the agent's own": {
			"agents:\n  a: {backend: openai, model: m, planning: true, clientTools: [{name: plan}]}\n",
			`2:65: agents.a.clientTools[0].name: "plan" is the name of a tool that agents have themselves; write planning: true for that, or give yours another name`,
		},
		"the same where the agent may not use its own": {
			"agents:\n  a: {backend: openai, model: m, clientTools: [{name: final_answer}]}\n",
			`2:49: agents.a.clientTools[0].name: "final_answer" is the name of a tool that agents have themselves; write finalAnswer: true for that, or give yours another name`,
		},
		"a client tool whose schema is not an object": {
			"agents:\n  a: {backend: openai, model: m, clientTools: [{name: x, schema: {type: string}}]}\n",
			`2:58: agents.a.clientTools[0].schema: must be a JSON Schema of an object; start it with type: object`,
		},
		"a wrong CIDR": {
			"tools:\n  http_get: {allow: [10.0.0.0/99]}\n",
			`2:22: tools.http_get.allow[0]: "10.0.0.0/99" is not a CIDR; write one such as 10.1.0.0/16, or a host name`,
		},
		"a tool that is described and does nothing": {
			"tools:\n  clock: {description: x}\n",
			`2:3: tools.clock: describes a tool without its action; add http or command`,
		},
		"a new tool without a description": {
			"tools:\n  mine: {http: {url: \"https://a.example/{x}\"}}\n",
			`2:3: tools.mine: has no description; describe the tool for the model`,
		},
		"a new tool with a name that is taken": {
			"tools:\n  clock: {description: x, http: {url: \"https://a.example\"}}\n",
			`2:3: tools.clock: "clock" is a tool that there is already; give yours another name`,
		},
		"a host that the model would choose": {
			"tools:\n  mine: {description: x, http: {url: \"https://{host}/x\"}}\n",
			`2:33: tools.mine.http.url: "https://{host}/x" must be a URL such as https://api.example.com/users/{id}: its path may contain arguments, the rest belongs into query`,
		},
		"a number in a schema that JSON does not know": {
			"tools:\n  mine: {description: x, schema: {type: object, x: .nan}, http: {url: \"https://a.example\"}}\n",
			`2:52: tools.mine.schema.x: is .nan, which JSON does not have`,
		},
		"a GET with a body": {
			"tools:\n  mine: {description: x, http: {url: \"https://a.example\", body: {a: 1}}}\n",
			`2:59: tools.mine.http.body: a GET has no body; set method, or use query`,
		},
		"a program that the model would choose": {
			"tools:\n  mine: {description: x, command: {argv: [\"{program}\"]}}\n",
			`2:43: tools.mine.command.argv[0]: the program must not depend on arguments of the model; write its name`,
		},
		"a tool that is HTTP and a command": {
			"tools:\n  mine: {description: x, http: {url: \"https://a.example\"}, command: {argv: [ls]}}\n",
			`2:3: tools.mine: has http and command; a tool is one of them`,
		},
		"an unknown isolation": {
			"tools:\n  mine: {description: x, command: {argv: [ls], isolation: strikt}}\n",
			`2:48: tools.mine.command.isolation: unknown value "strikt"; did you mean "strict"?`,
		},
		"a file tool without a root": {
			"agents:\n  a: {backend: scripted, tools: [read_file]}\n",
			`2:34: agents.a.tools[0]: unknown tool "read_file"; use one of calculator, clock, echo, http_get`,
		},
		"files without a root": {
			"files: {shared: true}\n",
			`1:1: files: has no root; add the folder that the file tools may use`,
		},
		"an MCP server that cannot be reached": {
			"mcp:\n  a: {}\n",
			`2:3: mcp.a: has neither command nor url; add one of them`,
		},
		"an MCP server that is two": {
			"mcp:\n  a: {command: x, url: \"http://localhost/mcp\"}\n",
			`2:3: mcp.a: has both command and url; a server is one of them`,
		},
		"an MCP server by HTTP with arguments": {
			"mcp:\n  a: {url: \"http://localhost/mcp\", args: [x]}\n",
			`2:3: mcp.a: has a url, so no process is started; remove args, env and dir`,
		},
		"a process with headers": {
			"mcp:\n  a: {command: x, headers: {A: b}}\n",
			`2:3: mcp.a: has a command, so it is not reached by HTTP; remove headers, oauth and allow`,
		},
		"an OAuth client without its authorization server": {
			"mcp:\n  a: {url: \"https://x\", oauth: {clientId: c, clientSecret: s}}\n",
			`2:25: mcp.a.oauth: needs issuer, clientId and clientSecret, or tokenFile`,
		},
		"a name that no MCP server may have": {
			"mcp:\n  a__b: {command: x}\n",
			`2:3: mcp.a__b: the name of an MCP server has letters, digits, _ and - only, at most 24, and no "__"`,
		},
		"an MCP server that looks like an agent": {
			"mcp:\n  agent: {command: x}\n",
			`2:3: mcp.agent: "agent" is where the names of agents as tools begin; give the server another name`,
		},
		"a tool of an MCP server that there is not": {
			"mcp:\n  a: {command: x}\nagents:\n  b: {backend: scripted, tools: [a__x, \"c__*\"]}\n",
			`4:40: agents.b.tools[1]: unknown tool "c__*"; use one of calculator, clock, echo, http_get`,
		},
		"an approval of a tool that the agent has not": {
			"mcp:\n  a: {command: x}\nagents:\n  b: {backend: scripted, tools: [a__x], approval: {a__y: never}}\n",
			`4:52: agents.b.approval.a__y: "a__y" is not one of this agent's tools; did you mean "a__x"?`,
		},
		"an agent that calls itself": {
			"agents:\n  a: {backend: scripted, agents: [a]}\n",
			`2:35: agents.a.agents[0]: an agent cannot call itself; remove it`,
		},
		"an agent that is called twice": {
			"agents:\n  a: {backend: scripted, agents: [b, b]}\n",
			`2:38: agents.a.agents[1]: agent "b" is in the list twice; remove one`,
		},
		"an agent with a name that cannot be that of a tool": {
			"agents:\n  a: {backend: scripted, agents: [" + strings.Repeat("b", 58) + "]}\n",
			`2:35: agents.a.agents[0]: the name of an agent that others call has at most 57 letters, digits, _ and -`,
		},
		"a cost below zero": {
			"agents:\n  a: {backend: scripted, limits: {cost: -0.5}}\n",
			`2:35: agents.a.limits.cost: must not be negative; leave it out for no limit`,
		},
		"an approval of another agent's tool": {
			"agents:\n  a: {backend: scripted, tools: [clock], approval: {echo: always}}\n",
			`2:53: agents.a.approval.echo: "echo" is not one of this agent's tools; use one of *, clock`,
		},
		"an unknown approval": {
			"agents:\n  a: {backend: scripted, approval: {\"*\": allways}}\n",
			`2:37: agents.a.approval.*: unknown approval "allways"; did you mean "always"?`,
		},
		"an origin with a path": {
			"gateway: {cors: [\"https://a.example/x\"]}\n",
			`1:18: gateway.cors[0]: "https://a.example/x" is not an origin; write one such as https://app.example.com`,
		},
		"agents on the broker without an owner": {
			"gateway: {natsAgents: {subject: x}}\n",
			"1:11: gateway.natsAgents: has no owner; add the name that the subjects of the agents contain\n" +
				"1:11: gateway.natsAgents: has tenant or subject; a principal needs both",
		},
		"a dot in the owner of agents on the broker": {
			"gateway: {natsAgents: {owner: a.b}}\n",
			`1:24: gateway.natsAgents.owner: "a.b" cannot be a name here: one is ^[A-Za-z0-9_-]{1,64}$`,
		},
		"a negative number of connections": {
			"gateway: {limits: {connections: -1}}\n",
			`1:20: gateway.limits.connections: must not be negative; leave it out for the default`,
		},
		"a rate without a time": {
			"gateway: {rateLimit: {requests: 1}}\n",
			`1:11: gateway.rateLimit: says how many requests and not per what; add per: 1m`,
		},
		"an alias": {
			"agents:\n  a: &x {backend: scripted}\n  b: *x\n",
			"2:6: agents.a: anchors, aliases and tags are not read here; write the value out\n" +
				"3:6: agents.b: anchors, aliases and tags are not read here; write the value out",
		},
		"two documents": {
			"agents: {}\n---\nagents: {}\n",
			`3:7: a second YAML document; put everything into one`,
		},
		"no YAML": {
			"agents: {\n",
			`1:9: not YAML: could not find flow mapping end token '}'`,
		},
		"several mistakes, in the order of the file": {
			"gateway:\n  hartbeat: 1s\nagents:\n  a:\n    backend: scriptd\n    tools: [clok]\n",
			"2:3: gateway: unknown field \"hartbeat\"; did you mean \"heartbeat\"?\n" +
				"5:5: agents.a.backend: unknown backend \"scriptd\"; did you mean \"scripted\"?\n" +
				"6:13: agents.a.tools[0]: unknown tool \"clok\"; did you mean \"clock\"?",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse([]byte(test.file), known)
			if _, ok := errors.AsType[config.Mistakes](err); !ok {
				t.Fatalf("got %v, want Mistakes", err)
			}
			if err.Error() != test.want {
				t.Errorf("got\n%s\nwant\n%s", err, test.want)
			}
		})
	}
}
