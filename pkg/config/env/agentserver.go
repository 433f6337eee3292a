package env

import (
	"log/slog"
	"time"
)

// AgentServer is the environment of an agent-server, which runs without a broker and without Redis. It overrides the
// configuration file.
type AgentServer struct {
	HTTPAddr   string     `env:"HTTP_ADDR" envDefault:"127.0.0.1:4001"`
	AdminAddr  string     `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9090"` // /healthz, /readyz, /metrics
	DataDir    string     `env:"DATA_DIR" envDefault:"agent-data"`       // tasks, sessions and keys
	ConfigFile string     `env:"CONFIG_FILE"`
	LogLevel   slog.Level `env:"LOG_LEVEL" envDefault:"INFO"`
	LogFormat  Format     `env:"LOG_FORMAT" envDefault:"json"`
	Profile    bool       `env:"PROFILE" envDefault:"false"` // /debug/pprof on the admin server

	ID                string `env:"AGENT_ID"`
	Name              string `env:"AGENT_NAME"`
	URL               string `env:"AGENT_URL"`                 // where the hub reaches the agent
	Backend           string `env:"AGENT_BACKEND"`             // what runs the tasks, where the file names no agent
	Root              string `env:"AGENT_ROOT"`                // folder that tasks never leave
	PermissionMode    string `env:"AGENT_PERMISSION_MODE"`     // of tasks that name none
	MaxPermissionMode string `env:"AGENT_MAX_PERMISSION_MODE"` // no task has more

	Keys   Secret `env:"AGENT_KEYS"` // that clients may come with, the newest first, with commas between
	HubURL string `env:"HUB_URL"`
	Token  Secret `env:"HUB_TOKEN"` // one-time set-up token

	TLSCert string `env:"TLS_CERT_FILE"`
	TLSKey  string `env:"TLS_KEY_FILE"`

	Grace time.Duration `env:"GRACE" envDefault:"25s"` // what a stop may take
}

// TaskGrace is what running tasks may take at a stop: it leaves time to record how they were cut off.
func (a AgentServer) TaskGrace() time.Duration { return a.Grace * 3 / 5 }
