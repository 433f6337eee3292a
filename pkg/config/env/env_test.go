package env_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/go-json-experiment/json"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := env.Load[env.Gateway](nil)
	if err != nil {
		t.Fatal(err)
	}
	want := env.Gateway{
		Process: env.Process{
			NATSURL: "nats://127.0.0.1:4222", Prefix: "agentbus", Provision: env.ProvisionVerify,
			Streams:   env.Streams{Replicas: 1, MaxAge: 72 * time.Hour, MaxQueue: 100_000, AckWait: 10 * time.Second},
			AdminAddr: "127.0.0.1:9090", LogFormat: env.FormatJSON, Grace: 25 * time.Second,
		},
		HTTPAddr: "127.0.0.1:8080", RedisURL: "redis://127.0.0.1:6379/0", Auth: env.AuthRequired,
	}
	if got != want {
		t.Errorf("got %#v\nwant %#v", got, want)
	}
}

func TestLoadReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	vars, err := env.Read([]string{
		"NATS_URL=nats://user:pass@nats:4222", "NATS_PROVISION=create", "ADMIN_ADDR=:9000", "LOG_LEVEL=debug",
		"LOG_FORMAT=text", "SLOTS=4", "REDIS_URL=", "UNRELATED=x",
		"NATS_REPLICAS=3", "NATS_MAX_AGE=48h", "NATS_MAX_BYTES=1000000", "NATS_MAX_QUEUE=50", "NATS_ACK_WAIT=3s",
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := env.Load[env.AgentRunner](vars)
	if err != nil {
		t.Fatal(err)
	}
	want := env.AgentRunner{
		Process: env.Process{
			NATSURL: "nats://user:pass@nats:4222", Prefix: "agentbus", Provision: env.ProvisionCreate,
			Streams:   env.Streams{Replicas: 3, MaxAge: 48 * time.Hour, MaxBytes: 1_000_000, MaxQueue: 50, AckWait: 3 * time.Second},
			AdminAddr: ":9000", LogLevel: slog.LevelDebug, LogFormat: env.FormatText, Grace: 25 * time.Second,
		},
		RedisURL: "redis://127.0.0.1:6379/0", Slots: 4, // a variable set to nothing counts as unset
	}
	if got != want {
		t.Errorf("got %#v\nwant %#v", got, want)
	}
}

func TestLoadNamesEveryWrongVariable(t *testing.T) {
	t.Parallel()
	vars := env.Environ{"AUTH": "maybe", "LOG_FORMAT": "xml", "LOG_LEVEL": "loud", "NATS_PROVISION": "no"}
	_, err := env.Load[env.Gateway](vars)
	for _, want := range []string{`"maybe" is not one of ["required" "off" "open"]`, `"xml" is not one of`, "loud", `"no" is not one of`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if _, err := env.Load[env.History](nil); err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
		t.Errorf("got %v, want that DATABASE_URL is needed", err)
	}
}

func TestASecretMayStandInAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("postgres://x:y@db/agentbus\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars, err := env.Read([]string{"DATABASE_URL_FILE=" + path})
	if err != nil {
		t.Fatal(err)
	}
	got, err := env.Load[env.History](vars)
	if err != nil || got.DatabaseURL.Reveal() != "postgres://x:y@db/agentbus" {
		t.Errorf("got %q, %v", got.DatabaseURL.Reveal(), err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		entries []string
		want    string
	}{
		"a secret and its file":        {[]string{"KEY_PEPPER=a", "KEY_PEPPER_FILE=" + path}, "KEY_PEPPER and KEY_PEPPER_FILE are both set"},
		"a file that is not there":     {[]string{"REDIS_URL_FILE=" + path + ".not"}, "REDIS_URL_FILE: open"},
		"two mistakes, both are named": {[]string{"REDIS_URL_FILE=/not", "KEY_PEPPER=a", "KEY_PEPPER_FILE=" + path}, "KEY_PEPPER_FILE are both set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := env.Read(test.entries)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestASecretNeverShows(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	s := env.History{DatabaseURL: text}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("started", "env", s, "url", s.DatabaseURL)
	inJSON, err := json.Marshal(s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %s %q %x", s, s, s.DatabaseURL, s.DatabaseURL, s.DatabaseURL), log.String(), string(inJSON)} {
		if strings.Contains(shown, text) || strings.Contains(shown, fmt.Sprintf("%x", text)) {
			t.Errorf("the secret shows: %s", shown)
		}
	}
}

func TestSecretsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := env.Environ{"A": "from a variable", "B_FILE": file, "C_FILE": file + "x"}
	secret := env.Secrets(vars.Get)
	for name, want := range map[string]string{"A": "from a variable", "B": "from a file"} {
		if got, err := secret(name); err != nil || got != want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"C": "C_FILE", "D": "set D or D_FILE"} {
		if _, err := secret(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAuthOffIsForLoopback(t *testing.T) {
	t.Parallel()
	tests := []struct {
		auth     env.Auth
		addr     string
		required bool
		fails    bool
	}{
		{env.AuthRequired, "0.0.0.0:8080", true, false},
		{env.AuthOff, "127.0.0.1:8080", false, false},
		{env.AuthOff, "[::1]:8080", false, false},
		{env.AuthOff, "localhost:8080", false, false},
		{env.AuthOff, "0.0.0.0:8080", false, true},
		{env.AuthOff, ":8080", false, true},
		{env.AuthOff, "10.0.0.7:8080", false, true},
		{env.AuthOff, "8080", false, true},
		{env.AuthOpen, "0.0.0.0:8080", false, false},
	}
	for _, test := range tests {
		required, err := test.auth.Required(test.addr)
		if required != test.required || (err != nil) != test.fails {
			t.Errorf("AUTH=%s at %s: got %v, %v", test.auth, test.addr, required, err)
		}
	}
}
