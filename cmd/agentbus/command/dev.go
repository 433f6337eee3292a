package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/dev"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/starter"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/telemetry"
)

type devCommand struct {
	Addr     string     `default:"127.0.0.1:8080" help:"Address to listen on; port 0 takes any."`
	Data     string     `help:"Folder that keeps everything. Without it, everything is gone at the end." type:"path"`
	Config   string     `help:"Configuration file, read again when it changes; without it, agentbus.yaml of this folder if it exists."`
	NATSAddr string     `name:"nats-addr" default:"127.0.0.1:4222" help:"Where the embedded NATS listens, unless it is taken."`
	NATS     string     `name:"nats" help:"Use the NATS at this URL, not the embedded one."`
	Redis    string     `help:"Use the Redis at this URL, not the embedded one."`
	Database string     `help:"Use this database (postgres://…), not the embedded SQLite."`
	Auth     bool       `help:"Ask for API keys. A fresh one is printed."`
	LogLevel slog.Level `default:"WARN" help:"How much to log: DEBUG, INFO, WARN or ERROR."`
}

func (cmd *devCommand) Run(ctx context.Context, g globals, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	log := telemetry.NewLogger(c.err, telemetry.LogOptions{Level: cmd.LogLevel, Text: true})
	slog.SetDefault(log) // for libraries
	told, err := telemetry.Setup(ctx, telemetry.Options{Service: "agentbus-dev", Version: service.Version()})
	if err != nil {
		return err
	}
	err = dev.Run(ctx, dev.Options{
		Addr: cmd.Addr, Data: cmd.Data, ConfigFile: cmd.config(), NATS: cmd.NATS, NATSAddr: cmd.NATSAddr,
		Redis: cmd.Redis, Database: cmd.Database,
		Extensions: c.extensions, Auth: cmd.Auth, Pepper: c.getenv("KEY_PEPPER"),
		Getenv: c.getenv, Metrics: told.Metrics, Log: log,
		Started:  func(i dev.Info) { welcome(c.out, g, i) },
		Reloaded: func(agents []string, err error) { reloaded(c.err, agents, err) },
	})
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(err, told.Shutdown(flush))
}

// config returns the configuration file, "" without one.
func (cmd *devCommand) config() string {
	if cmd.Config != "" {
		return cmd.Config
	}
	if _, err := os.Stat(starter.Config); err != nil {
		return ""
	}
	return starter.Config
}

// reloaded prints what became of a change of the configuration.
func reloaded(w io.Writer, agents []string, err error) {
	if err != nil {
		_, _ = fmt.Fprintf(w, "%s\nthe configuration has mistakes; the earlier one stays in use\n", screen.Clean(err.Error()))
		return
	}
	_, _ = fmt.Fprintf(w, "configuration reloaded; agents: %s\n", strings.Join(agents, ", "))
}

// example is a request whose answer has thinking, text and a tool call.
const example = `{"messages":[{"role":"user","content":"/think hm\n/say hello\n/tool calculator {\"expression\":\"6*7\"}\n/say done"}]}`

// welcome prints the addresses, and a command that works.
func welcome(w io.Writer, g globals, i dev.Info) {
	if g.JSON {
		_ = line(w, map[string]any{"url": i.URL, "nats": i.NATS, "data": i.Data, "agents": i.Agents, "key": i.Key})
		return
	}
	data, authorization, key := i.Data, "", ""
	if data == "" {
		data = "in memory, gone at the end (keep it with --data DIR)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "agentbus %s\n\n  url     %s\n  nats    %s\n  data    %s\n", service.Version(), i.URL, i.NATS, data)
	if i.Config != "" {
		fmt.Fprintf(&b, "  config  %s (read again when it changes)\n", i.Config)
	}
	fmt.Fprintf(&b, "  agents  %s\n", strings.Join(i.Agents, ", "))
	if i.Key != "" {
		fmt.Fprintf(&b, "  key     %s\n", i.Key)
		authorization, key = " -H 'Authorization: Bearer "+i.Key+"'", " --key "+i.Key
	}
	fmt.Fprintf(&b, "\nTry:\n\n  curl -N %s/v1/agents/demo/stream%s \\\n    -H 'Content-Type: application/json' \\\n    -d '%s'\n",
		i.URL, authorization, example)
	fmt.Fprintf(&b, "\n  %s chat --url %s%s\n\nCtrl-C stops it.\n", program(), i.URL, key)
	_, _ = io.WriteString(w, b.String()) // a closed terminal does not stop the services
}
