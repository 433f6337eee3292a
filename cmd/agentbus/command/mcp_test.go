package command

import (
	"bytes"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveMCP runs `agentbus mcp` until the test ends, and returns a session with it and its exit code.
func serveMCP(t *testing.T, args ...string) (*sdk.ClientSession, <-chan int) {
	t.Helper()
	toIn, in := io.Pipe()
	out, fromOut := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), append([]string{"mcp"}, args...), &console{in: toIn, out: fromOut, err: io.Discard, getenv: noEnvironment})
		_ = fromOut.Close()
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session, code
}

func TestMCPServesTheToolsOfTheHub(t *testing.T) {
	t.Parallel()
	session, code := serveMCP(t, "--url", shared().URL)
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 6 {
		t.Fatalf("got %+v, %v, want six tools", tools, err)
	}
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "list_agents"})
	if err != nil || result.IsError {
		t.Fatalf("got %+v, %v", result, err)
	}
	text, ok := result.Content[0].(*sdk.TextContent)
	if _, structured := result.StructuredContent.(map[string]any); !ok || !structured || text.Text == "" {
		t.Errorf("got %+v", result)
	}
	result, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "check_status", Arguments: map[string]any{"agent_id": "x", "task_id": "y"}})
	if err != nil || !result.IsError {
		t.Errorf("got %+v, %v, want what is wrong as a result", result, err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if got := <-code; got != 0 {
		t.Errorf("got exit code %d when the client had left, want 0", got)
	}
}

func TestMCPReportsMissingHub(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	code := run(t.Context(), []string{"mcp", "--url", "http://127.0.0.1:1"}, &console{
		in: strings.NewReader(""), out: io.Discard, err: &said, getenv: noEnvironment,
	})
	if code != exitFailed || !strings.Contains(said.String(), "nothing answers at http://127.0.0.1:1") {
		t.Errorf("got %d, %q", code, said.String())
	}
}
