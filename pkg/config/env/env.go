// Package env is the environment of each service: what belongs to a deployment, such as addresses and secrets, while
// pkg/config describes agents and tools.
//
// Each service has a struct here; [Load] fills it. Every variable that may hold a secret has a twin with _FILE at its
// end, which names a file that holds the value, as orchestrators mount secrets.
package env

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Process is what every service needs.
type Process struct {
	NATSURL    Secret     `env:"NATS_URL" envDefault:"nats://127.0.0.1:4222"` // a secret: it may hold a password
	Prefix     string     `env:"NATS_PREFIX" envDefault:"agentbus"`           // first token of every subject
	Provision  Provision  `env:"NATS_PROVISION" envDefault:"verify"`
	AdminAddr  string     `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9090"` // /healthz, /readyz, /metrics
	Profile    bool       `env:"PROFILE" envDefault:"false"`             // /debug/pprof on the admin server
	ConfigFile string     `env:"CONFIG_FILE"`
	LogLevel   slog.Level `env:"LOG_LEVEL" envDefault:"INFO"`
	LogFormat  Format     `env:"LOG_FORMAT" envDefault:"json"`

	NATSFiles NATSFiles
	Streams   Streams

	Grace time.Duration `env:"GRACE" envDefault:"25s"` // what a stop may take; below the orchestrator's own
}

// NATSFiles are paths of files: how a process authenticates to NATS, and which servers it accepts.
type NATSFiles struct {
	CredsFile string `env:"NATS_CREDS"`         // a JWT and its seed
	NKeyFile  string `env:"NATS_NKEY_FILE"`     // the seed of an nkey, which agentbus nats-config writes
	CAFile    string `env:"NATS_CA_FILE"`       // the certificates that servers may have; "" = those of the machine
	CertFile  string `env:"NATS_TLS_CERT_FILE"` // of this process, for servers that verify their clients
	KeyFile   string `env:"NATS_TLS_KEY_FILE"`
}

// Streams is the shape of the streams that a service creates, with NATS_PROVISION=create.
type Streams struct {
	Replicas int           `env:"NATS_REPLICAS" envDefault:"1"`       // 1 or 3
	MaxAge   time.Duration `env:"NATS_MAX_AGE" envDefault:"72h"`      // of events, results of tools and large payloads
	MaxBytes int64         `env:"NATS_MAX_BYTES" envDefault:"0"`      // of events, results and large payloads, each; see bus.Storage
	MaxQueue int64         `env:"NATS_MAX_QUEUE" envDefault:"100000"` // requests, and calls of tools, that wait or run
	AckWait  time.Duration `env:"NATS_ACK_WAIT" envDefault:"10s"`     // until the work of a dead process is taken over
}

// Common returns p itself, from any struct that has it.
func (p Process) Common() Process { return p }

// ActorGrace is what the work in flight may take at a stop: it leaves time to settle what is cut off after it.
func (p Process) ActorGrace() time.Duration { return p.Grace * 4 / 5 }

// Gateway is the environment of the gateway.
type Gateway struct {
	Process
	HTTPAddr  string `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080"`
	RedisURL  Secret `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0"`
	Auth      Auth   `env:"AUTH" envDefault:"required"`
	KeyPepper Secret `env:"KEY_PEPPER"` // what keys are hashed with; needed when Auth is required
	TLSCert   string `env:"TLS_CERT_FILE"`
	TLSKey    string `env:"TLS_KEY_FILE"`
}

// AgentRunner is the environment of the agent-runner. The keys of the providers are read by name (see config.Agent).
type AgentRunner struct {
	Process
	RedisURL Secret `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0"`
	Slots    int    `env:"SLOTS" envDefault:"32"` // requests in flight
}

// ToolExecutor is the environment of the tool-executor.
type ToolExecutor struct {
	Process
	Slots int `env:"SLOTS" envDefault:"32"` // calls in flight
}

// History is the environment of history.
type History struct {
	Process
	DatabaseURL Secret `env:"DATABASE_URL,required"` // postgres://… or sqlite:PATH
}

// Hub is the environment of the hub.
type Hub struct {
	Process
	HTTPAddr    string `env:"HTTP_ADDR" envDefault:"127.0.0.1:8081"`
	DatabaseURL Secret `env:"DATABASE_URL,required"` // postgres://… or sqlite:PATH
	HubSecret   Secret `env:"HUB_SECRET,required"`   // what the keys of agents are sealed with
	Auth        Auth   `env:"AUTH" envDefault:"required"`
	KeyPepper   Secret `env:"KEY_PEPPER"` // what API keys are hashed with; needed when Auth is required
}

// secrets are the variables with a _FILE twin.
var secrets = []string{
	"NATS_URL", "REDIS_URL", "DATABASE_URL", "KEY_PEPPER", "HUB_SECRET", "AGENT_KEYS", "HUB_TOKEN",
	"OPENAI_API_KEY", "ANTHROPIC_API_KEY",
}

// Environ is a set of variables by name.
type Environ map[string]string

// Read takes "name=value" entries, usually os.Environ(), and the contents of the files that _FILE variables name. A
// variable and its _FILE twin together are an error: their precedence would be unclear.
func Read(entries []string) (Environ, error) {
	vars := env.ToMap(entries)
	var errs []error
	for _, name := range secrets {
		path := vars[name+"_FILE"]
		if path == "" {
			continue
		}
		if vars[name] != "" {
			errs = append(errs, fmt.Errorf("%s and %s_FILE are both set; remove one, best %s", name, name, name))
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s_FILE: %w", name, err))
			continue
		}
		vars[name] = strings.TrimRight(string(text), "\r\n")
	}
	return vars, errors.Join(errs...)
}

// Get returns the value of a variable, "" when it is not set.
func (e Environ) Get(name string) string { return e[name] }

// Secrets returns what finds the secrets that the configuration names: the value of a variable, or the contents of the file
// that its twin with _FILE names. Getenv is os.Getenv, or [Environ.Get].
func Secrets(getenv func(string) string) func(name string) (string, error) {
	return func(name string) (string, error) {
		if value := getenv(name); value != "" {
			return value, nil
		}
		path := getenv(name + "_FILE")
		if path == "" {
			return "", fmt.Errorf("the environment has no secret %s; set %s or %s_FILE", name, name, name)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("%s_FILE: %w", name, err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
}

// Load fills the struct of a service. The error names every variable that is wrong.
func Load[Service any](vars Environ) (Service, error) {
	service, err := env.ParseAsWithOptions[Service](env.Options{Environment: withoutEmpty(vars)})
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		return service, fmt.Errorf("environment: %w", errors.Join(all.Errors...))
	}
	if err != nil {
		return service, fmt.Errorf("environment: %w", err)
	}
	return service, nil
}

// withoutEmpty drops variables that are set to nothing, which means unset wherever a template leaves a value out.
func withoutEmpty(vars Environ) Environ {
	set := make(Environ, len(vars))
	for name, value := range vars {
		if value != "" {
			set[name] = value
		}
	}
	return set
}

// Secret is a text that never shows in logs or errors.
type Secret string

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the text.
func (s Secret) String() string { return "(secret)" }

// GoString hides the text from %#v.
func (s Secret) GoString() string { return "(secret)" }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the text from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Auth says whether clients need a key.
type Auth string

// The values of AUTH.
const (
	AuthRequired Auth = "required"
	AuthOff      Auth = "off"  // on loopback only
	AuthOpen     Auth = "open" // off, on any address
)

// UnmarshalText accepts the values of AUTH.
func (a *Auth) UnmarshalText(text []byte) error {
	return oneOf(a, text, AuthRequired, AuthOff, AuthOpen)
}

// Required reports whether callers need an API key. Without one only this machine may reach addr (host:port), unless
// that is asked for explicitly.
func (a Auth) Required(addr string) (bool, error) {
	if a != AuthOff {
		return a == AuthRequired, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("HTTP_ADDR %q: write host:port, such as 127.0.0.1:8080", addr)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return false, nil
	}
	return false, fmt.Errorf("AUTH=off and HTTP_ADDR=%s: anyone who reaches the address could use it; "+
		"use AUTH=required, an address of this machine, or AUTH=open if that is what you want", addr)
}

// Format is how log lines are written.
type Format string

// The values of LOG_FORMAT.
const (
	FormatJSON Format = "json"
	FormatText Format = "text"
)

// UnmarshalText accepts the values of LOG_FORMAT.
func (f *Format) UnmarshalText(text []byte) error { return oneOf(f, text, FormatJSON, FormatText) }

// Provision says what a service does about the streams when it starts.
type Provision string

// The values of NATS_PROVISION.
const (
	ProvisionVerify Provision = "verify" // they must be there, as production needs them
	ProvisionCreate Provision = "create" // create what is missing, with NATS_REPLICAS copies
)

// UnmarshalText accepts the values of NATS_PROVISION.
func (p *Provision) UnmarshalText(text []byte) error {
	return oneOf(p, text, ProvisionVerify, ProvisionCreate)
}

func oneOf[T ~string](into *T, text []byte, values ...T) error {
	value := T(text)
	if !slices.Contains(values, value) {
		return fmt.Errorf("%q is not one of %q", value, values)
	}
	*into = value
	return nil
}
