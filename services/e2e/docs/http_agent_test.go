package docs

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHTTPAgent(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	dir := t.TempDir()
	p := read(t, "http-agent.md")
	address := freeAddress(t)
	p.text = strings.NewReplacer("127.0.0.1:9000", address, `"127.0.0.1", 9000`, `"127.0.0.1", `+address[strings.LastIndex(address, ":")+1:]).Replace(p.text)
	p.write(dir, "agent.py")
	p.write(dir, "http.yaml")
	run(t, dir, address, "python3", "agent.py")
	url := serve(t, filepath.Join(dir, "http.yaml"), binaries)
	wantTexts(t, shell(t, dir, url, "", p.blocks("Run both")[1]),
		"You said: hello", `"finishReason":"stop"`, `"kind":"approval"`, `"to":"production"`, `"finishReason":"action_required"`)
	wantTexts(t, shell(t, dir, url, "", "printf 'deploy\ny\n' | "+binaries+"/agentbus chat support"), "deployed: success")
}

func TestAGUIAgent(t *testing.T) {
	t.Parallel()
	need(t, "node")
	dir := t.TempDir()
	p := read(t, "agui.md")
	address := freeAddress(t)
	_, p.text, _ = strings.Cut(p.text, "## An agent that serves AG-UI")
	p.text = strings.NewReplacer("127.0.0.1:8000", address, `8000, "127.0.0.1"`, address[strings.LastIndex(address, ":")+1:]+`, "127.0.0.1"`).Replace(p.text)
	p.write(dir, "agui.yaml")
	p.write(dir, "agent.mjs")
	run(t, dir, address, "node", "agent.mjs")
	url := serve(t, filepath.Join(dir, "agui.yaml"), binaries)
	wantTexts(t, shell(t, dir, url, "", p.blocks("`agent.mjs`")[2]), "You said: hello", `"finishReason":"stop"`)
}

func TestAISDKAgent(t *testing.T) {
	t.Parallel()
	need(t, "node")
	dir := t.TempDir()
	p := read(t, "ai-sdk.md")
	address := freeAddress(t)
	_, p.text, _ = strings.Cut(p.text, "## An agent behind a route of the AI SDK")
	p.text = strings.NewReplacer("127.0.0.1:3000", address, `3000, "127.0.0.1"`, address[strings.LastIndex(address, ":")+1:]+`, "127.0.0.1"`).Replace(p.text)
	p.write(dir, "ai-sdk.yaml")
	p.write(dir, "agent.mjs")
	run(t, dir, address, "node", "agent.mjs")
	url := serve(t, filepath.Join(dir, "ai-sdk.yaml"), binaries)
	wantTexts(t, shell(t, dir, url, "", p.blocks("`agent.mjs`")[2]), "You said: hello", `"finishReason":"stop"`)
}

func TestLangGraphAgent(t *testing.T) {
	t.Parallel()
	need(t, "node")
	dir := t.TempDir()
	p := read(t, "langgraph.md")
	address := freeAddress(t)
	_, p.text, _ = strings.Cut(p.text, "## An agent of a LangGraph server")
	p.text = strings.NewReplacer("127.0.0.1:2024", address, `2024, "127.0.0.1"`, address[strings.LastIndex(address, ":")+1:]+`, "127.0.0.1"`).Replace(p.text)
	p.write(dir, "langgraph.yaml")
	p.write(dir, "server.mjs")
	run(t, dir, address, "node", "server.mjs")
	url := serve(t, filepath.Join(dir, "langgraph.yaml"), binaries)
	wantTexts(t, shell(t, dir, url, "", p.blocks("`server.mjs`")[2]), "You said: hello", `"finishReason":"stop"`)
}

func TestA2AAgent(t *testing.T) {
	t.Parallel()
	need(t, "node")
	dir := t.TempDir()
	p := read(t, "a2a.md")
	address := freeAddress(t)
	_, p.text, _ = strings.Cut(p.text, "## An agent that serves A2A")
	p.text = strings.NewReplacer("127.0.0.1:41241", address, `41241, "127.0.0.1"`, address[strings.LastIndex(address, ":")+1:]+`, "127.0.0.1"`).Replace(p.text)
	p.write(dir, "a2a.yaml")
	p.write(dir, "agent.mjs")
	run(t, dir, address, "node", "agent.mjs")
	url := serve(t, filepath.Join(dir, "a2a.yaml"), binaries)
	wantTexts(t, shell(t, dir, url, "", p.blocks("`agent.mjs`")[2]), "You said: hello", `"finishReason":"stop"`)
}

// freeAddress returns an address of loopback on which no server listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // its address was free, which is all that matters
	return listener.Addr().String()
}

// run runs a server in a folder until the test ends, and waits for it to listen.
func run(t *testing.T, dir, address, program string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...) // killed before the functions of Cleanup run
	command.Dir, command.Stderr = dir, os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Wait() // it was killed
	})
	deadline, poll := time.Now().Add(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer poll.Stop()
	for ; ; <-poll.C {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close() // it shows that the server listens
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %v does not listen on %s: %v", program, args, address, err)
		}
	}
}
