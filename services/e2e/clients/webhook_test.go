package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWebhookExamples receives a notification of the gateway, and verifies its signature with the examples of the page.
func TestWebhookExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	headers, body := notification(t)
	forged := strings.Replace(body, "request.done", "request.gone", 1)
	if forged == body {
		t.Fatalf("got %s, want request.done", body)
	}
	for _, test := range []struct {
		language, file, harness string
		program                 []string
	}{
		{"go", "hook/hook.go", goHarness, []string{"go", "run", "."}},
		{"ts", "hook.ts", tsHarness, []string{"node", "main.mjs"}},
		{"python", "hook.py", pythonHarness, []string{"python3", "main.py"}},
	} {
		t.Run(test.language, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, test.file, example(t, string(page), test.language))
			switch test.language {
			case "go":
				write(t, dir, "go.mod", "module example.com/receiver\n\ngo 1.26\n")
				write(t, dir, "main.go", test.harness)
			case "ts":
				here, err := filepath.Abs("node_modules")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(here, filepath.Join(dir, "node_modules")); err != nil {
					t.Fatal(err)
				}
				write(t, dir, "main.mjs", test.harness)
			default:
				write(t, dir, "main.py", test.harness)
			}
			for text, want := range map[string]string{body: "true", forged: "false"} {
				input, err := json.Marshal(map[string]any{"key": signingKey, "headers": headers, "body": text})
				if err != nil {
					t.Fatal(err)
				}
				run := exec.CommandContext(t.Context(), test.program[0], test.program[1:]...)
				run.Dir, run.Stdin = dir, strings.NewReader(string(input))
				out, err := run.CombinedOutput()
				if got := strings.ToLower(strings.TrimSpace(string(out))); err != nil || got != want {
					t.Errorf("got %s, %v, want %s for %s", out, err, want, text)
				}
			}
		})
	}
}

// notification runs a request, and returns what the receiver of the configuration gets.
func notification(t *testing.T) (headers map[string]string, body string) {
	t.Helper()
	type notice struct {
		headers map[string]string
		body    string
	}
	arrived := make(chan notice, 16)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", hooks)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got := notice{headers: map[string]string{}}
		for name := range r.Header {
			got.headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		text, _ := io.ReadAll(r.Body)
		got.body = string(text)
		arrived <- got
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	url := gateways[0] + "/v1/agents/watched/requests"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"messages":[{"role":"user","content":"/say hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("got %s", response.Status)
	}
	deadline := time.After(time.Minute)
	for {
		select {
		case got := <-arrived:
			if strings.Contains(got.body, response.Header.Get("X-Request-Id")) {
				return got.headers, got.body
			}
		case <-deadline:
			t.Fatal(fmt.Errorf("no notification of request %s", response.Header.Get("X-Request-Id")))
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const goHarness = `package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"example.com/receiver/hook"
)

func main() {
	var in struct {
		Key     string            "json:\"key\""
		Headers map[string]string "json:\"headers\""
		Body    string            "json:\"body\""
	}
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		panic(err)
	}
	header := http.Header{}
	for name, value := range in.Headers {
		header.Set(name, value)
	}
	fmt.Println(hook.Verify(in.Key, header, []byte(in.Body)))
}
`

const tsHarness = `import fs from "node:fs";
import ts from "typescript";

const { outputText } = ts.transpileModule(fs.readFileSync("hook.ts", "utf8"), { compilerOptions: { module: "ESNext", target: "ES2022" } });
fs.writeFileSync("hook.mjs", outputText);
const { verify } = await import("./hook.mjs");
const { key, headers, body } = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(verify(key, headers, body));
`

const pythonHarness = `import json, sys
from hook import verify

value = json.load(sys.stdin)
print(verify(value["key"], value["headers"], value["body"].encode()))
`
