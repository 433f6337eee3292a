package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/service/servicetest"
)

const key = "0123456789abcdef-test"

// TestMain makes the test program an agent-server, where a test asks for one or an agent-server starts a sandbox, and the
// program of an agent, where an agent-server runs it.
func TestMain(m *testing.M) {
	if dir := os.Getenv(programVariable); dir != "" {
		if err := program(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("AGENT_SERVER_TEST_CHILD") != "" || os.Getenv("AGENTBUS_SANDBOX") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is an agent-server as a process of its own.
type process struct {
	*remoteagent.Client
	t       *testing.T
	command *exec.Cmd
	address string
	before  []string    // what it said before
	lines   chan string // what it says, from the first line that gives its address on
}

var listening = regexp.MustCompile(`msg=listening .*address=(\S+)`)

// start runs an agent-server on dir, with more environment.
func start(t *testing.T, dir string, more ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, command: exec.CommandContext(t.Context(), exe), lines: make(chan string, 1000)}
	p.command.Env = append(os.Environ(), append([]string{
		"AGENT_SERVER_TEST_CHILD=1", "AGENT_BACKEND=scripted", "DATA_DIR=" + filepath.Join(dir, "data"), "AGENT_ROOT=" + dir,
		"HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "LOG_FORMAT=text", "GRACE=1s", "AGENT_KEYS=" + key,
	}, more...)...)
	stderr, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.signal(syscall.SIGKILL) })
	said := bufio.NewScanner(stderr)
	for said.Scan() {
		if found := listening.FindStringSubmatch(said.Text()); found != nil {
			p.address = found[1]
			break
		}
		p.before = append(p.before, said.Text())
	}
	if p.address == "" {
		t.Fatalf("the agent server did not start: %s", strings.Join(p.before, "\n"))
	}
	go func() { // ends with the process
		defer close(p.lines)
		for said.Scan() {
			select {
			case p.lines <- said.Text():
			default:
			}
		}
	}()
	p.Client = remoteagent.NewClient("http://"+p.address, key)
	return p
}

// signal sends a signal, and for one that ends the process waits for its end.
func (p *process) signal(sig syscall.Signal) {
	_ = p.command.Process.Signal(sig)
	if sig != syscall.SIGHUP {
		_ = p.command.Wait()
	}
}

func (p *process) create(a remoteagent.Assignment) remoteagent.Task {
	p.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		task, err := p.Create(p.t.Context(), a, "")
		if err == nil {
			return task
		}
		if r, ok := errors.AsType[*remoteagent.Refusal](err); !ok || r.HTTP != http.StatusServiceUnavailable || time.Now().After(deadline) {
			p.t.Fatal(err)
		}
	}
}

// await reads a task's stream until an event of the name has come, and returns its number.
func (p *process) await(taskID, name string) uint64 {
	p.t.Helper()
	for e, err := range p.Stream(p.t.Context(), taskID, 0) {
		if err != nil {
			p.t.Fatal(err)
		}
		if e.Body.Name() == name {
			return e.ID
		}
	}
	p.t.Fatalf("task %s ended without %s", taskID, name)
	return 0
}

func (p *process) finish(taskID string, after uint64) (events []remoteagent.Event, task remoteagent.Task) {
	p.t.Helper()
	for e, err := range p.Stream(p.t.Context(), taskID, after) {
		if err != nil {
			p.t.Fatal(err)
		}
		events = append(events, e)
	}
	task, err := p.Status(p.t.Context(), taskID)
	if err != nil {
		p.t.Fatal(err)
	}
	return events, task
}

var administered = regexp.MustCompile(`msg=started .*admin=(\S+)`)

func TestOperatorsSeeHealthAndMetrics(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	var admin string
	for line := range p.lines {
		if found := administered.FindStringSubmatch(line); found != nil {
			admin = found[1]
			break
		}
	}
	p.finish(p.create(remoteagent.Assignment{Prompt: "/say hi"}).TaskID, 0)
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": `status="completed"`} {
		response, err := http.Get("http://" + admin + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("GET %s gives %d, %v, want %s in it: %.2000s", path, response.StatusCode, err, want, body)
		}
		response.Body.Close()
	}
}

const longScript = "/say one\n/tool clock {}\n/say two\n/sleep 700ms\n/say three"

// A task that ran when the process was killed has failed, and its session can be resumed.
func TestAKilledProcessLeavesAFailedTask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir)
	task := p.create(remoteagent.Assignment{Prompt: longScript})
	last := p.await(task.TaskID, "tool_end")
	p.signal(syscall.SIGKILL)

	p = start(t, dir)
	events, got := p.finish(task.TaskID, last)
	if got.Status != remoteagent.Failed || !got.Recoverable || got.Error == "" || got.SessionID != task.SessionID {
		t.Errorf("got %+v", got)
	}
	failure, ok := events[len(events)-1].Body.(remoteagent.Failure)
	if !ok || !failure.Recoverable || events[0].ID != last+1 {
		t.Errorf("the stream continues with %+v", events)
	}
	again := p.create(remoteagent.Assignment{Prompt: "/say back", SessionID: task.SessionID})
	if _, got := p.finish(again.TaskID, 0); got.Status != remoteagent.Completed || got.Result != "back" {
		t.Errorf("got %+v", got)
	}
}

func TestProgramsOfToolsRunInASandboxThatTheLogDescribes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	config := "agents: {worker: {backend: scripted, tools: [user]}}\nagentServer: {agent: worker}\n" +
		"tools: {user: {description: x, command: {argv: [id, -u]}}}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, "CONFIG_FILE="+file)
	const want = "tools=[user] sandbox.namespaces=on sandbox.userNamespacesDenied=on sandbox.capabilitiesDropped=on " +
		"sandbox.systemCallFilter=on sandbox.noNewPrivileges=on sandbox.processLimits=on sandbox.cgroupLimits=off"
	if !strings.Contains(strings.Join(p.before, "\n"), want) {
		t.Errorf("it said %q, want %q", p.before, want)
	}
	events, task := p.finish(p.create(remoteagent.Assignment{Prompt: "/tool user {}"}).TaskID, 0)
	if said := fmt.Sprintf("%+v", events); task.Status != remoteagent.Completed || !strings.Contains(said, "65534") {
		t.Errorf("got %+v and %s, want the user of the sandbox", task, said)
	}
}

// If configured, the task continues instead, and does nothing twice.
func TestAKilledProcessResumesItsTask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	config := "agents: {worker: {backend: scripted, tools: [clock]}}\nagentServer: {agent: worker, onCrash: resume, queue: 1}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, "CONFIG_FILE="+file)
	task := p.create(remoteagent.Assignment{Prompt: longScript})
	waiting := p.create(remoteagent.Assignment{Prompt: "/say after"})
	last := p.await(task.TaskID, "tool_end")
	p.signal(syscall.SIGKILL)

	p = start(t, dir, "CONFIG_FILE="+file)
	events, got := p.finish(task.TaskID, last)
	if got.Status != remoteagent.Completed || !strings.HasSuffix(got.Result, "three") || got.TurnsCompleted != 2 {
		t.Errorf("got %+v", got)
	}
	for _, e := range events {
		if e.Body.Name() == "tool_start" {
			t.Errorf("the tool ran again: %+v", e)
		}
	}
	if _, got := p.finish(waiting.TaskID, 0); got.Status != remoteagent.Completed || got.Result != "after" {
		t.Errorf("the task that waited: got %+v", got)
	}
}

// A stop gives tasks time, and records how the rest was cut off.
func TestAStopFailsWhatItCutsOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir)
	task := p.create(remoteagent.Assignment{Prompt: "/say one\n/sleep 1h"})
	p.await(task.TaskID, "text_delta")
	p.signal(syscall.SIGTERM)
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the process ended with %d", code)
	}
	p = start(t, dir)
	if _, got := p.finish(task.TaskID, 0); got.Status != remoteagent.Failed || !strings.Contains(got.Error, "stopped") || !got.Recoverable {
		t.Errorf("got %+v", got)
	}
}

// Keys come from a file, which is read again.
func TestKeysAreReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	write := func(keys string) {
		if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(key + "\n")
	p := start(t, dir, "AGENT_KEYS=", "AGENT_KEYS_FILE="+file)
	const next = "the-next-key-of-the-agent"
	good := func(key string) bool {
		_, err := remoteagent.NewClient("http://"+p.address, key).Health(t.Context())
		return err == nil
	}
	reload := func(want string) {
		p.signal(syscall.SIGHUP)
		for line := range p.lines {
			if strings.Contains(line, want) {
				return
			}
		}
		t.Fatalf("it did not say %q", want)
	}
	write(next + "," + key)
	reload("were reloaded")
	if !good(key) || !good(next) {
		t.Error("both keys are to be good")
	}
	write("short")
	reload("nothing was reloaded")
	if !good(key) || !good(next) {
		t.Error("a file that is wrong changes nothing")
	}
	write(next)
	reload("were reloaded")
	if good(key) || !good(next) {
		t.Error("the next key alone is to be good")
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, private := selfSigned(t, dir)
	p := start(t, dir, "TLS_CERT_FILE="+certificate, "TLS_KEY_FILE="+private)
	roots := x509.NewCertPool()
	text, err := os.ReadFile(certificate)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	client := remoteagent.NewClient("https://"+p.address, key)
	client.HTTP = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	task, err := client.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi"}, "")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range client.Stream(t.Context(), task.TaskID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n == 0 {
		t.Error("no events over TLS")
	}
	if _, err := p.Health(t.Context()); err == nil {
		t.Error("it answers without TLS")
	}
}

func selfSigned(t *testing.T, dir string) (certificate, private string) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	certificate, private = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: der}, private: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, private
}

func TestInvalidEnvironmentGivesRemedy(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		env  []string
		want string
	}{
		{"no backend", []string{"AGENT_BACKEND="}, "set AGENT_BACKEND to one of"},
		{"an unknown backend", []string{"AGENT_BACKEND=magic"}, "there is no backend \"magic\""},
		{"no keys", []string{"AGENT_KEYS="}, "set AGENT_KEYS"},
		{"a short key", []string{"AGENT_KEYS=secret"}, "openssl rand -hex 32"},
		{"a root that is not there", []string{"AGENT_ROOT=/nowhere/at/all"}, "AGENT_ROOT"},
		{"a bad id", []string{"AGENT_ID=a b"}, "AGENT_ID"},
		{"an unknown permission mode", []string{"AGENT_PERMISSION_MODE=plan"}, "AGENT_PERMISSION_MODE"},
		{"more permission than the maximum", []string{"AGENT_PERMISSION_MODE=acceptEdits", "AGENT_MAX_PERMISSION_MODE=default"}, "raise AGENT_MAX_PERMISSION_MODE"},
		{"half of TLS", []string{"TLS_CERT_FILE=x"}, "TLS_KEY_FILE"},
		{"a token without an address", []string{"HUB_TOKEN=t", "HUB_URL=http://hub.test"}, "AGENT_URL"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			command := exec.CommandContext(ctx, exe)
			command.Env = append(append(os.Environ(), "AGENT_SERVER_TEST_CHILD=1", "AGENT_BACKEND=scripted", "DATA_DIR="+t.TempDir(),
				"HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "AGENT_KEYS="+key), test.env...)
			stderr, err := command.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(stderr)
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Wait(); err == nil || !strings.Contains(string(said), test.want) {
				t.Errorf("got %v: %s, want %q", err, said, test.want)
			}
		})
	}
}

// A length in addition to the chunks could make the rest a second request for a server in front of the agent server.
func TestARequestInChunksIsTheLastOfItsConnection(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	const (
		common = " HTTP/1.1\r\nHost: vm\r\nAuthorization: Bearer " + key + "\r\n"
		first  = "POST /tasks" + common + "Content-Length: 500\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
		second = "GET /tasks" + common + "\r\n"
	)
	_, err = io.WriteString(conn, first+second)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(conn) // it may be reset: the second request stays unread
	if n := strings.Count(string(answers), "HTTP/1.1 "); n != 1 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %d answers and %v, want one and the end of the connection: %s", n, err, answers)
	}
}

func TestAttackFraming(t *testing.T) {
	t.Parallel()
	servicetest.Framing(t, start(t, t.TempDir()).address, "/tasks")
}
