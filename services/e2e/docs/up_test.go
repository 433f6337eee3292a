package docs

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/alicebob/miniredis/v2"
)

// up runs deploy/up.sh, as make up and make down do, and returns what it prints.
func up(t *testing.T, env []string, args ...string) (output string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute) // also called when the test has ended
	defer cancel()
	command := exec.CommandContext(ctx, "deploy/up.sh", args...)
	command.Dir, command.Env = root, append([]string{"PATH=" + os.Getenv("PATH"), "ADMIN_PORT=23100"}, env...)
	text, err := command.CombinedOutput()
	t.Logf("up.sh %s: %v\n%s", strings.Join(args, " "), err, text)
	return string(text), err == nil
}

func TestUpWaitsForTheServices(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	dir := t.TempDir()
	services := []string{"gateway", "history", "hub"}
	for _, service := range services {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, service), "./services/"+service+"/cmd")
		build.Dir = root
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	nats, err := embedded.Start(embedded.Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Close)
	env := []string{
		"BIN=" + dir, "RUN=" + filepath.Join(dir, "run"), "NATS_URL=" + nats.URL(), "REDIS_URL=redis://" + miniredis.RunT(t).Addr(),
		"HTTP_ADDR=127.0.0.1:23180",
	}
	t.Cleanup(func() {
		if _, ok := up(t, env, append([]string{"stop"}, services...)...); !ok {
			t.Error("the services do not stop")
		}
	})

	got, ok := up(t, env, append([]string{"start"}, services...)...)
	if ok {
		t.Error("without the required variables: got success")
	}
	wantTexts(t, got, "hub: not started; HUB_SECRET is not set", "gateway: ended; the last line", "KEY_PEPPER",
		"history: ended; the last line", "DATABASE_URL")

	env = append(env, "KEY_PEPPER=0123456789abcdef0123456789abcdef", "DATABASE_URL=sqlite:"+filepath.Join(dir, "history.db"))
	got, ok = up(t, env, append([]string{"start"}, services...)...)
	if !ok {
		t.Fatal("with the required variables: got a failure")
	}
	wantTexts(t, got, "gateway: ready", "history: ready")
	response, err := http.Get("http://127.0.0.1:23180/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the gateway after start: got %s", response.Status)
	}
	if got, ok := up(t, env, append([]string{"start"}, services...)...); !ok || !strings.Contains(got, "gateway: runs already") {
		t.Errorf("a second start: got %q", got)
	}
}
