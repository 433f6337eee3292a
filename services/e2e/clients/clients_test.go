// Package clients tests the gateway with the published clients of the protocols that it serves. `make test-clients` installs
// them with npm and runs the tests; without them the tests are skipped.
package clients

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/agentbus/agentbus/services/e2e/stack"
)

// gateways are the URLs of the gateways under test.
var gateways []string

// broker is the URL of NATS; "" = clients do not reach it.
var broker string

// program is the path of agentbus, for the protocols that it serves over standard input and output.
var program string

// workspace is the folder of agents and MCP servers that are processes.
var workspace string

func TestMain(m *testing.M) {
	kind := flag.String("stack", string(stack.Dev), "what to test: dev, or processes")
	flag.Parse()
	code, err := run(m, stack.Kind(*kind))
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		code = 1
	}
	os.Exit(code)
}

// run starts the stack, with two gateways where it has processes, and runs the tests against it.
func run(m *testing.M, kind stack.Kind) (code int, err error) {
	if _, err := os.Stat("node_modules"); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "clients: the tests are skipped: make test-clients installs the clients")
		return 0, nil
	}
	dir, err := os.MkdirTemp("", "agentbus-clients-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder: the system removes what remains
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	programs, err := testcluster.Build(ctx, dir, nil, testcluster.Dev)
	if err != nil {
		return 1, err
	}
	program = programs[testcluster.Dev]
	if err := assignAddresses(ctx); err != nil {
		return 1, err
	}
	config, err := configure(dir)
	if err != nil {
		return 1, err
	}
	s, err := stack.Start(ctx, stack.Options{
		Kind: kind, OpenNATS: true, Dir: dir, Config: config, Counts: map[string]int{"gateway": 2}, Env: []string{"AGENT_SIGNING_KEY=" + signingKey, "LANGGRAPH_KEY=lsv2-key"},
	})
	if err != nil {
		return 1, err
	}
	defer s.Stop()
	gateways, broker = s.Gateways, s.NATS
	if err := os.WriteFile(filepath.Join(workspace, "url"), []byte(s.URL), 0o600); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 {
		fmt.Fprintln(os.Stderr, s.Logs())
	}
	return code, nil
}

// configure writes the configuration with the paths of this machine, and returns its name.
func configure(dir string) (file string, err error) {
	here, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join("testdata", "config.yaml"))
	if err != nil {
		return "", err
	}
	file, workspace = filepath.Join(dir, "config.yaml"), filepath.Join(dir, "workspace")
	filled := strings.NewReplacer("HERE", here, "WORKSPACE", workspace, "PROGRAM", program, "PAGE_ORIGIN", "http://"+page,
		"TYPESCRIPT_AGENT", "http://"+typeScriptAgent, "PYTHON_AGENT", "http://"+pythonAgent, "UPSTREAM", upstream, "RECEIVER", receiver, "HOOKS", hooks,
		"MCP_SERVER", mcpServer).Replace(string(text))
	return file, errors.Join(os.Mkdir(workspace, 0o700), os.WriteFile(file, []byte(filled), 0o600))
}

func TestAGUI(t *testing.T) { suite(t, "agui.test.mjs") }

func TestAISDK(t *testing.T) { suite(t, "aisdk.test.mjs") }

func TestUseChat(t *testing.T) { suite(t, "aisdk_react.test.mjs") }

func TestACP(t *testing.T) { suite(t, "acp.test.mjs") }

func TestAgentsThatSpeakACP(t *testing.T) { suite(t, "acp_backend.test.mjs") }

func TestAgentsThatServeAGUI(t *testing.T) { suite(t, "agui_backend.test.mjs") }

func TestAgentsBehindTheAISDK(t *testing.T) { suite(t, "aisdk_backend.test.mjs") }

func TestAgentsOfLangGraph(t *testing.T) { suite(t, "langgraph_backend.test.mjs") }

func TestAgentsThatServeA2A(t *testing.T) { suite(t, "a2a_backend.test.mjs") }

func TestMCPServers(t *testing.T) { suite(t, "mcp.test.mjs") }

func TestSchemas(t *testing.T) { suite(t, "schemas.test.mjs") }

func TestLangGraph(t *testing.T) { suite(t, "langgraph.test.mjs") }

func TestLangGraphThreads(t *testing.T) { suite(t, "langgraph_thread.test.mjs") }

func TestLangGraphInReact(t *testing.T) { suite(t, "langgraph_react.test.mjs") }

func TestDurableStreams(t *testing.T) { suite(t, "durablestreams.test.mjs") }

func TestNATSAgents(t *testing.T) {
	if broker == "" {
		t.Skip("the test needs the broker of -stack=processes")
	}
	suite(t, "natsagents.test.mjs")
	page, err := os.ReadFile("../../../docs/nats-agents.md")
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), "node", "--input-type=module", "-")
	node.Stdin = strings.NewReader(strings.ReplaceAll(example(t, string(page), "js"), "nats://127.0.0.1:4222", broker))
	if out, err := node.CombinedOutput(); err != nil || string(out) != "done\n" {
		t.Errorf("the JavaScript example: %v\n%s", err, out)
	}
}

func TestA2A(t *testing.T) { suite(t, "a2a.test.mjs") }

func TestOpenAI(t *testing.T) { suite(t, "openai.test.mjs") }

func TestOpenAIResponses(t *testing.T) { suite(t, "openai_responses.test.mjs") }

func TestOpenAIProviderOfTheAISDK(t *testing.T) { suite(t, "openai_provider.test.mjs") }

// TestOpenAIResponsesInPython reads the wire format with the rules of OpenAI's client for Python.
func TestOpenAIResponsesInPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	out, err := exec.CommandContext(t.Context(), "python3", filepath.Join("testdata", "openai_responses.py"), gateways[0], gateways[len(gateways)-1]).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDocuments runs the examples of the pages as they are, on the URL of the gateway under test.
func TestDocuments(t *testing.T) {
	for _, test := range []struct {
		page  string
		after string // the examples are the first ones after this text
		shell string // what the shell example prints, count times
		count int
	}{
		{"agui.md", "", `"type":"RUN_FINISHED"`, 2},
		{"ai-sdk.md", "", "data: [DONE]", 2},
		{"openai.md", "", `"object":"response"`, 4},
		{"openai.md", "With Chat Completions:", `"finish_reason":"stop"`, 2},
		{"langgraph.md", "", `"content":"hello"`, 2},
		{"a2a.md", "", `"state":"TASK_STATE_COMPLETED"`, 2},
		{"durable-streams.md", "", `"event":"done"`, 2},
	} {
		t.Run(test.page+" "+test.after, func(t *testing.T) {
			page, err := os.ReadFile("../../../docs/" + test.page)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, found := strings.Cut(string(page), test.after)
			if !found {
				t.Fatalf("the page has no text %q", test.after)
			}
			text := strings.ReplaceAll(rest, "http://127.0.0.1:8080", gateways[0])
			shell := exec.CommandContext(t.Context(), "bash", "-euc", example(t, text, "sh"))
			if out, err := shell.CombinedOutput(); err != nil || bytes.Count(out, []byte(test.shell)) != test.count {
				t.Errorf("the shell example: %v\n%s", err, out)
			}
			node := exec.CommandContext(t.Context(), "node", "--input-type=module", "-")
			node.Stdin = strings.NewReader(example(t, text, "js"))
			if out, err := node.CombinedOutput(); err != nil || string(out) != "done\n" {
				t.Errorf("the JavaScript example: %v\n%s", err, out)
			}
		})
	}
}

// example returns the first example of a page in a language.
func example(t *testing.T, page, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("the page has no example in %s", language)
	}
	return text
}

// suite runs a file of tests in Node.
func suite(t *testing.T, file string) {
	t.Helper()
	var out bytes.Buffer
	node := exec.CommandContext(t.Context(), "node", file)
	node.Env = append(os.Environ(), "AGENTBUS_URLS="+strings.Join(gateways, ","), "AGENTBUS_PROGRAM="+program, "AGENTBUS_UPSTREAM="+upstream, "AGENTBUS_RECEIVER="+receiver,
		"AGENTBUS_MCP_SERVER="+mcpServer, "AGENTBUS_WORKSPACE="+workspace, "AGENTBUS_NATS="+broker)
	node.Stdout, node.Stderr = &out, &out
	if err := node.Run(); err != nil {
		t.Errorf("%s: %v\n%s", file, err, out.Bytes())
		return
	}
	t.Logf("%s", out.Bytes())
}
