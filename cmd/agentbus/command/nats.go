package command

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/permissions"
)

// connectTime is the timeout of the connection to NATS.
const connectTime = 5 * time.Second

// natsFlags say how to reach NATS. The variables are those of the services.
type natsFlags struct {
	NATS   string `name:"nats" env:"NATS_URL" default:"nats://127.0.0.1:4222" help:"URL of NATS."`
	Creds  string `env:"NATS_CREDS" type:"path" help:"NATS credentials file."`
	NKey   string `name:"nkey" env:"NATS_NKEY_FILE" type:"path" help:"File with the seed of an nkey."`
	CA     string `name:"ca" env:"NATS_CA_FILE" type:"path" help:"File with the certificates that NATS servers may have."`
	Cert   string `env:"NATS_TLS_CERT_FILE" type:"path" help:"Client certificate, for servers that verify their clients."`
	Key    string `name:"cert-key" env:"NATS_TLS_KEY_FILE" type:"path" help:"Key of the client certificate."`
	Prefix string `env:"NATS_PREFIX" default:"agentbus" help:"First token of every subject."`
}

// connect connects as a role. The caller closes the bus.
func (f natsFlags) connect(ctx context.Context, role permissions.Role) (*bus.Bus, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return bus.Connect(ctx, bus.Options{
		URL: f.NATS, Name: string(role), Prefix: f.Prefix,
		Credentials: bus.Credentials{CredsFile: f.Creds, NKeyFile: f.NKey, CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key},
	})
}

// natsConfigCommand writes the users of a NATS server.
type natsConfigCommand struct {
	Dir    string `arg:"" type:"path" help:"Folder for the files; it is created. Seeds that exist are kept."`
	Prefix string `env:"NATS_PREFIX" default:"agentbus" help:"First token of every subject."`
}

func (cmd *natsConfigCommand) Run(g globals, c *console) error {
	created, err := permissions.WriteFiles(cmd.Dir, permissions.Options{Prefix: cmd.Prefix})
	if err != nil {
		return fmt.Errorf("write the users of NATS to %s: %w", cmd.Dir, err)
	}
	accounts := filepath.Join(cmd.Dir, permissions.AccountsFile)
	if g.JSON {
		return line(c.out, map[string]any{"accounts": accounts, "created": created})
	}
	_, err = fmt.Fprintf(c.out, "wrote %s\n%s", accounts, strings.Join(prefixed("wrote ", created), ""))
	return err
}

// prefixed returns lines that start with prefix.
func prefixed(prefix string, all []string) []string {
	lines := make([]string, len(all))
	for i, one := range all {
		lines[i] = prefix + one + "\n"
	}
	return lines
}

// provisionCommand creates the streams, consumers and buckets. A deployment runs it before its services, which only verify.
type provisionCommand struct {
	natsFlags

	Replicas int           `env:"NATS_REPLICAS" default:"1" enum:"1,3" help:"Copies of each stream: 1 or 3."`
	MaxAge   time.Duration `env:"NATS_MAX_AGE" default:"72h" help:"How long the streams keep events, results of tools and large payloads."`
	MaxBytes int64         `env:"NATS_MAX_BYTES" default:"0" help:"Size of the streams of events, results and payloads; 0: 10 GiB or less, -1: no limit."`
	MaxQueue int64         `env:"NATS_MAX_QUEUE" default:"100000" help:"Requests, and calls of tools, that wait or run."`
	AckWait  time.Duration `env:"NATS_ACK_WAIT" default:"10s" help:"Time until the work of a dead process is taken over."`
	Wait     time.Duration `default:"1m" help:"How long to wait for NATS."`
}

func (cmd *provisionCommand) Run(ctx context.Context, g globals, c *console) error {
	ctx, cancel := context.WithTimeout(ctx, cmd.Wait)
	defer cancel()
	for {
		err := cmd.provision(ctx)
		if err == nil {
			break
		}
		if bus.Final(err) || ctx.Err() != nil {
			return err
		}
		_, _ = fmt.Fprintln(c.err, err) // progress only
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
	if g.JSON {
		return line(c.out, map[string]string{"provision": "done"})
	}
	_, err := fmt.Fprintln(c.out, "the streams, consumers and buckets exist and have the configuration that the services need")
	return err
}

func (cmd *provisionCommand) provision(ctx context.Context) error {
	b, err := cmd.connect(ctx, permissions.Provision)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Provision(ctx, bus.Storage{
		Replicas: cmd.Replicas, MaxAge: cmd.MaxAge, MaxBytes: cmd.MaxBytes, MaxQueue: cmd.MaxQueue, AckWait: cmd.AckWait,
	})
}
