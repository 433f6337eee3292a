package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// configFile writes a configuration.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agentbus.yaml")
	write(t, path, text)
	return path
}

func TestCheckReportsMistakes(t *testing.T) {
	t.Parallel()
	path := configFile(t, "agents:\n  a: {backend: scripted, script: /sya}\n  b: {backend: openai}\n"+
		"tools:\n  t: {description: d, http: {url: 'https://x.example/', headers: {A: '${NO_SUCH_SECRET}'}}}\n")
	out, side := execute(t, exitFailed, "check", path)
	for _, want := range []string{
		path + ":2:26: agents.a.script: script line 1: ", path + ":3:3: agents.b: has no model",
		path + ":5:67: tools.t.http.headers.A: the environment has no secret NO_SUCH_SECRET", "\n3 mistakes\n",
	} {
		if out != "" || !strings.Contains(side, want) {
			t.Errorf("got %q and %q, want %q", out, side, want)
		}
	}
	if _, side := execute(t, exitFailed, "check", "--no-env", path); strings.Contains(side, "NO_SUCH_SECRET") {
		t.Errorf("without the environment: got %q", side)
	}
	if out, _ := execute(t, exitFailed, "check", "--json", path); !strings.Contains(out, `"line":2,"column":26,"path":"agents.a.script","message":"script line 1`) {
		t.Errorf("as JSON: got %q", out)
	}
	if _, side := execute(t, exitFailed, "check", path+".not"); !strings.Contains(side, "no such file") {
		t.Errorf("no file: got %q", side)
	}
	secret := map[string]string{"NO_SUCH_SECRET": "x"}
	right := configFile(t, "agents:\n  a: {backend: scripted}\n"+
		"tools:\n  t: {description: d, http: {url: 'https://x.example/', headers: {A: '${NO_SUCH_SECRET}'}}}\n")
	if out, _ := begin(t, secret, "check", right).wait(t, 0); !strings.Contains(out, right+": no mistakes\n  agents  a\n  tools   t\n") {
		t.Errorf("got %q", out)
	}
}

func TestInitWritesAProjectThatStarts(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal("the project has an agent in Python: install python3")
	}
	dir := filepath.Join(t.TempDir(), "project")
	config := filepath.Join(dir, "agentbus.yaml")
	out, _ := execute(t, 0, "init", dir)
	for _, want := range []string{"wrote " + config, "check " + config, "dev --config " + config, "chat hello"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want %q", out, want)
		}
	}
	if _, side := execute(t, exitFailed, "init", dir); !strings.Contains(side, config+" exists and is not overwritten") {
		t.Errorf("again: got %q", side)
	}
	execute(t, 0, "check", config)
	s := own(t, "--config="+config)
	if out, _ := execute(t, 0, s.at("run", "hello", "two words")...); out != "Hello! Your message has 2 words: two words \n" {
		t.Errorf("the program: got %q", out)
	}

	// The tool calls the address of the gateway, which the test cannot choose in advance. It changes the file instead.
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, config, strings.ReplaceAll(string(text), "127.0.0.1:8080", strings.TrimPrefix(s.URL, "http://")))
	s.log.await(t, "configuration reloaded; agents: demo, hello, reporter")
	if _, side := execute(t, 0, s.at("run", "reporter", "go")...); !strings.Contains(side, "← ") || strings.Contains(side, "error") {
		t.Errorf("the tool: got %q", side)
	}
}

func TestInitWritesNothingWhereAFileExists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agent.py"), "mine")
	execute(t, exitFailed, "init", dir)
	if text, err := os.ReadFile(filepath.Join(dir, "agent.py")); err != nil || string(text) != "mine" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "agentbus.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("agentbus.yaml: got %v, want no file", err)
	}
}

func TestDevReloadsItsConfiguration(t *testing.T) {
	t.Parallel()
	path := configFile(t, "agents:\n  a: {backend: scripted, script: /say first}\n")
	s := own(t, "--config="+path)
	if out, _ := execute(t, 0, s.at("run", "a", "go")...); out != "first\n" {
		t.Fatalf("got %q", out)
	}
	long := begin(t, nil, s.at("run", "demo", "/say begun\n/tool clock {}\n/sleep 4s\n/say ended")...)
	long.out.await(t, "begun")

	write(t, path, "agents:\n  a: {backend: scripted, script: /say second}\n  b: {backend: scripted}\n")
	s.log.await(t, "configuration reloaded; agents: a, b, demo")
	if out, _ := execute(t, 0, s.at("run", "a", "go")...); out != "second\n" {
		t.Errorf("after the change: got %q", out)
	}
	if out, side := long.wait(t, 0); !strings.HasSuffix(out, "ended\n") || strings.Count(side, "clock") > 2 {
		t.Errorf("the request that ran: got %q and %q", out, side)
	}

	write(t, path, "agents:\n  a: {backend: scriptd}\n")
	s.log.await(t, path+`:2:7: agents.a.backend: unknown backend "scriptd"; did you mean "scripted"?`)
	s.log.await(t, "the earlier one stays in use")
	if out, _ := execute(t, 0, s.at("run", "a", "go")...); out != "second\n" {
		t.Errorf("after a mistake: got %q", out)
	}
}

func TestDevReportsServersThatItCannotReach(t *testing.T) {
	t.Parallel()
	for server, args := range map[string][]string{
		"nats":  {"--nats=nats://127.0.0.1:1"},
		"redis": {"--redis=redis://127.0.0.1:1", "--nats-addr=127.0.0.1:0"},
	} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			log, code := &buffer{}, make(chan int, 1)
			go func() {
				code <- run(ctx, append([]string{"dev", "--addr=127.0.0.1:0"}, args...), &console{out: log, err: log, getenv: noEnvironment})
			}()
			log.await(t, "dependency="+server)
			stop()
			if got := <-code; got != 0 {
				t.Errorf("exit code %d after a signal: %s", got, log)
			}
		})
	}
}

func TestDevNamesTheRemedyForAnAddressInUse(t *testing.T) {
	t.Parallel()
	address := strings.TrimPrefix(shared().URL, "http://")
	_, side := begin(t, nil, "dev", "--addr="+address, "--nats-addr=127.0.0.1:0").wait(t, exitFailed)
	if !regexp.MustCompile(`another process listens on ` + address + ` .* choose another address: .*--addr`).MatchString(side) {
		t.Errorf("got %q", side)
	}
}
