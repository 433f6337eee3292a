package command

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDevPrintsALineThatWorks(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "dev", "--addr=127.0.0.1:0", "--nats-addr=127.0.0.1:0", "--auth")
	cmd.Env = append(os.Environ(), "AGENTBUS_TEST_PROGRAM=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var welcome strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		welcome.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Ctrl-C") {
			break
		}
	}
	if took := time.Since(begin); took > 10*time.Second { // a second on an idle machine
		t.Errorf("it took %s to start", took)
	}
	answer := curl(t, welcome.String())
	line := regexp.MustCompile(`(?m)^  (\S+ chat --url .*)$`).FindStringSubmatch(welcome.String())
	if line == nil {
		t.Fatalf("no chat line in\n%s", &welcome)
	}
	talk := exec.CommandContext(t.Context(), "sh", "-c", line[1])
	talk.Env, talk.Stdin = cmd.Env, strings.NewReader("/say it works\n")
	if said, err := talk.Output(); err != nil || string(said) != "it works\n" {
		t.Errorf("%s: got %q, %v", line[1], said, err)
	}
	for _, want := range []string{"event: metadata", "event: thinking", `"text":"hello"`, "6*7 = 42", "event: done"} {
		if !strings.Contains(answer, want) {
			t.Fatalf("no %q in the answer to\n%s\n%s", want, &welcome, answer)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
}

// curl does what the curl line in text says, without needing curl.
func curl(t *testing.T, text string) string {
	t.Helper()
	find := func(expr string) string {
		found := regexp.MustCompile(expr).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in\n%s", expr, text)
		}
		return found[1]
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, find(`curl -N (\S+)`), strings.NewReader(find(` -d '([^']*)'`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range regexp.MustCompile(`-H '([^:]+): ([^']*)'`).FindAllStringSubmatch(text, -1) {
		request.Header.Set(header[1], header[2])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestDevWithoutKeysIsNotReachedByAPublicName(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]stack{"open": shared(), "with keys": own(t, "--auth")} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "rebound.example"
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if refused := response.StatusCode == http.StatusForbidden; refused != (s.Key == "") {
			t.Errorf("%s: got %s", name, response.Status)
		}
	}
}

func TestMetricsOfDevAreServedOnlyWithoutKeys(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]stack{"open": shared(), "with keys": own(t, "--auth")} {
		for _, path := range []string{"/metrics", "/metrics/", "/debug/pprof/", "/debug/vars"} {
			for _, key := range []string{"", s.Key} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if key != "" {
					request.Header.Set("Authorization", "Bearer "+key)
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				want := http.StatusNotFound
				if path == "/metrics" && s.Key == "" {
					want = http.StatusOK
				}
				if response.StatusCode != want {
					t.Errorf("%s, %s: got %s, want %d", name, path, response.Status, want)
				}
			}
		}
	}
}

func TestDevKeepsData(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	first, err := startDev(t.Context(), "--data="+data)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, 0, first.at("chat", "-m", "/say remember me")...)
	first.end(t)
	second := own(t, "--data="+data)
	if out, _ := execute(t, 0, second.at("threads")...); !strings.Contains(out, "/say remember me") {
		t.Errorf("it is forgotten: %q", out)
	}
}

func TestDevRefusesADataFolderInUse(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	first := own(t, "--data="+data)
	second := begin(t, nil, "dev", "--data="+data, "--addr=127.0.0.1:0", "--nats-addr=127.0.0.1:0")
	_, side := second.wait(t, exitFailed)
	for _, want := range []string{data + " is used by agentbus dev at ", "(pid "} {
		if !strings.Contains(side, want) {
			t.Errorf("got %q, want %q", side, want)
		}
	}
	execute(t, 0, first.at("chat", "-m", "/say the first one still works")...)
}

func TestDevReadsAConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, "agents:\n  greeter: {backend: scripted, script: /say welcome}\n")
	s := own(t, "--config="+path)
	if out, _ := execute(t, 0, s.at("chat", "greeter", "-m", "whatever")...); out != "welcome\n" {
		t.Errorf("got %q", out)
	}
	out, _ := execute(t, 0, s.at("agents")...)
	if !strings.Contains(out, "demo") || !strings.Contains(out, "greeter") {
		t.Errorf("got %q", out)
	}
}

func TestDevRefuses(t *testing.T) {
	t.Parallel()
	wrong := filepath.Join(t.TempDir(), "config.yaml")
	write(t, wrong, "agents:\n  a: {backend: scriptd}\n  b: {backend: scripted, tools: [clok]}\n")
	long := filepath.Join(t.TempDir(), "config.yaml")
	write(t, long, "agents:\n  a: {backend: scripted, actionTTL: 168h}\n")
	tests := map[string]struct {
		args []string
		want []string
	}{
		"an open door":             {[]string{"--addr=0.0.0.0:0"}, []string{"add --auth to ask for keys, or listen on 127.0.0.1"}},
		"every interface, unnamed": {[]string{"--addr=:0"}, []string{"add --auth"}},
		"an invalid address":       {[]string{"--addr=8080"}, []string{"write host:port"}},
		"a wrong configuration":    {[]string{"--config=" + wrong}, []string{wrong + ":2:7: agents.a.backend: ", wrong + ":3:34: agents.b.tools[0]: "}},
		"time to act beyond retention": {
			[]string{"--config=" + long, "--nats-addr=127.0.0.1:0"}, []string{long, "agents.a.actionTTL is 168h0m0s, longer than the 72h0m0s", "NATS_MAX_AGE"},
		},
		"a configuration not there":  {[]string{"--config=" + wrong + ".not"}, []string{"no such file"}},
		"a database that is unknown": {[]string{"--database=mysql://x", "--nats-addr=127.0.0.1:0"}, []string{"postgres://"}},
		"an invalid URL of Redis":    {[]string{"--redis=here", "--nats-addr=127.0.0.1:0"}, []string{"redis://host:port"}},
		"a pepper that is too short": {[]string{"--auth", "--nats-addr=127.0.0.1:0", "--addr=127.0.0.1:0"}, []string{"at least"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t, map[string]string{"KEY_PEPPER": "short"}, append([]string{"dev"}, test.args...)...)
			_, side := c.wait(t, exitFailed)
			for _, want := range test.want {
				if !strings.Contains(side, want) {
					t.Errorf("got %q, want %q", side, want)
				}
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	const secret = "a pepper of more than 16 bytes"
	data := t.TempDir()
	write(t, filepath.Join(data, "key-pepper"), secret)
	s := own(t, "--auth", "--data="+data)
	env := map[string]string{"KEY_PEPPER": secret}
	keys := func(code int, args ...string) (string, string) {
		t.Helper()
		return begin(t, env, append([]string{"keys", "--nats=" + s.NATS}, args...)...).wait(t, code)
	}
	if out, _ := execute(t, 0, s.at("agents")...); !strings.Contains(out, "demo") {
		t.Errorf("the key of dev: %q", out)
	}
	if _, side := execute(t, exitFailed, "--url="+s.URL, "agents"); !strings.Contains(side, "AGENTBUS_KEY") {
		t.Errorf("without a key: %q", side)
	}
	open := regexp.MustCompile(`//.*@`).ReplaceAllString(s.NATS, "//")
	if out, side := begin(t, env, "keys", "--nats="+open, "list").wait(t, exitFailed); open == s.NATS || !strings.Contains(side, "Authorization") {
		t.Errorf("NATS at %s without its token: %q, %q", open, out, side)
	}
	made, side := keys(0, "create", "alice", "--scope=read", "--ttl=1h")
	if !strings.HasPrefix(made, "ak_") || !strings.Contains(side, "only time") {
		t.Fatalf("got %q and %q", made, side)
	}
	alice := s
	alice.Key = strings.TrimSpace(made)
	// The gateway learns of a new key within moments.
	for deadline := time.Now().Add(10 * time.Second); ; {
		c := begin(t, nil, alice.at("threads")...)
		if <-c.code == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the new key opens nothing: %s", c.err)
		}
	}
	if _, side := execute(t, exitFailed, alice.at("chat", "-m", "/say hi")...); !strings.Contains(side, "agentbus: ") {
		t.Errorf("a key that may only read: %q", side)
	}
	list, _ := keys(0, "list")
	id := regexp.MustCompile(`(ak_\w+) +default +alice +read +active +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \d{4}-\d\d-\d\d`).FindStringSubmatch(list)
	if id == nil || strings.Contains(list, alice.Key) {
		t.Fatalf("the list: %s", list)
	}
	if asJSON, _ := keys(0, "list", "--json"); !strings.Contains(asJSON, `"id":"`+id[1]+`"`) || !strings.Contains(asJSON, `"expiresAt":"`) {
		t.Errorf("the list as JSON: %s", asJSON)
	}
	keys(0, "revoke", id[1])
	if list, _ := keys(0, "list"); !regexp.MustCompile(id[1] + ` +default +alice +read +revoked`).MatchString(list) {
		t.Errorf("after the end of the key: %s", list)
	}
	if _, side := keys(exitFailed, "revoke", "ak_nobody"); !strings.Contains(side, "keys list") {
		t.Errorf("an unknown key: %q", side)
	}
	env = nil
	if _, side := keys(exitFailed, "create", "bob"); !strings.Contains(side, "set KEY_PEPPER") {
		t.Errorf("without a pepper: %q", side)
	}
}

func TestHelpListsTheFlagsThatACommandUses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		command []string
		gateway bool
	}{
		{[]string{"chat"}, true},
		{[]string{"agents", "add"}, true},
		{[]string{"dev"}, false},
		{[]string{"check"}, false},
		{[]string{"keys", "create"}, false},
		{[]string{"history", "rebuild"}, false},
	} {
		out, _ := execute(t, 0, append(test.command, "--help")...)
		if got := strings.Contains(out, "--url="); got != test.gateway || strings.Contains(out, "--key=") != test.gateway || !strings.Contains(out, "--json") {
			t.Errorf("%q: got the flags of a gateway: %t, want %t, in\n%s", test.command, got, test.gateway, out)
		}
	}
}

func TestTheCommandLineItself(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		code int
		out  string
		side string
	}{
		"nothing at all":           {nil, 0, "Usage: agentbus <command>", ""},
		"help":                     {[]string{"chat", "--help"}, 0, "Talk to an agent.", ""},
		"a misspelt command":       {[]string{"chatt"}, exitUsage, "", `did you mean "chat"?`},
		"an unknown flag":          {[]string{"chat", "--colour"}, exitUsage, "", "unknown flag --colour"},
		"a missing argument":       {[]string{"tail"}, exitUsage, "", `expected "<request>"`},
		"the version":              {[]string{"version"}, 0, "agentbus devel go1.", ""},
		"the version, as JSON":     {[]string{"--json", "version"}, 0, `"version":"devel"`, ""},
		"the version, as a flag":   {[]string{"--version"}, 0, "agentbus devel go1.", ""},
		"help of all commands":     {[]string{"help"}, 0, "Usage: agentbus <command>", ""},
		"help of one":              {[]string{"help", "keys", "create"}, 0, "Usage: agentbus keys create <subject>", ""},
		"help of another":          {[]string{"help", "chatt"}, exitUsage, "", `did you mean "chat"?`},
		"too few threads":          {[]string{"threads", "--limit=0"}, exitUsage, "", "--limit 0: write a number from 1 to 200"},
		"too many threads":         {[]string{"threads", "--limit=1000"}, exitUsage, "", "--limit 1000: write a number from 1 to 200"},
		"no server at the address": {[]string{"--url=http://127.0.0.1:1", "chat", "-m", "hi"}, exitFailed, "", "nothing answers at http://127.0.0.1:1: start it with `agentbus dev`"},
		"an invalid address":       {[]string{"--url=ftp://localhost", "agents"}, exitFailed, "", "write one such as http://127.0.0.1:8080"},
		"no NATS for keys":         {[]string{"keys", "--nats=nats://127.0.0.1:1", "list"}, exitFailed, "", "connect to NATS"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, side := execute(t, test.code, test.args...)
			if !strings.Contains(out, test.out) || !strings.Contains(side, test.side) {
				t.Errorf("got %q and %q, want %q and %q", out, side, test.out, test.side)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
