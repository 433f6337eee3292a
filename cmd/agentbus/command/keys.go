package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/permissions"
	"github.com/agentbus/agentbus/pkg/config/env"
)

// keysCommand works on NATS directly: keys are for operators, and the gateway has no route for them.
type keysCommand struct {
	natsFlags

	Create keysCreateCommand `cmd:"" help:"Make a key, and print it this once."`
	List   keysListCommand   `cmd:"" help:"List the keys."`
	Revoke keysRevokeCommand `cmd:"" help:"Revoke a key at once and for good."`
}

func (cmd *keysCommand) connect(ctx context.Context) (*bus.Bus, error) {
	b, err := cmd.natsFlags.connect(ctx, permissions.Keys)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if err := b.Verify(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

type keysCreateCommand struct {
	Subject string        `arg:"" help:"Who the key is for: threads belong to their subject."`
	Tenant  string        `default:"default" help:"Tenant that the subject belongs to."`
	Scope   []string      `help:"What the key may do: read, run, agents, tool_output; without it, everything."`
	TTL     time.Duration `name:"ttl" help:"How long the key is good for; without it, until it is revoked."`
}

func (cmd *keysCreateCommand) Run(ctx context.Context, g globals, keys *keysCommand, c *console) error {
	pepper, err := pepper(c)
	if err != nil {
		return err
	}
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		return err
	}
	b, err := keys.connect(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	existing, err := records(ctx, b)
	if err != nil {
		return err
	}
	scopes := make([]auth.Scope, len(cmd.Scope))
	for i, s := range cmd.Scope {
		scopes[i] = auth.Scope(s)
	}
	key, record, err := issuer.WithClock(b.Now).New(cmd.Tenant, cmd.Subject, scopes, cmd.TTL, existing)
	if err != nil {
		return err
	}
	if err := b.PutKey(ctx, bus.KeyRecord(record)); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, map[string]string{"id": record.ID, "key": key, "tenant": record.Tenant, "subject": record.Subject})
	}
	_, _ = fmt.Fprintln(c.err, "this is the only time that the key is shown:")
	_, err = fmt.Fprintln(c.out, key)
	return err
}

// pepper returns KEY_PEPPER, or the content of the file KEY_PEPPER_FILE.
func pepper(c *console) (string, error) {
	vars, err := env.Read([]string{"KEY_PEPPER=" + c.getenv("KEY_PEPPER"), "KEY_PEPPER_FILE=" + c.getenv("KEY_PEPPER_FILE")})
	if err != nil {
		return "", err
	}
	if vars.Get("KEY_PEPPER") == "" {
		return "", errors.New("set KEY_PEPPER (or KEY_PEPPER_FILE) to what the gateways have: a key made under another one opens nothing")
	}
	return vars.Get("KEY_PEPPER"), nil
}

func records(ctx context.Context, b *bus.Bus) ([]auth.Record, error) {
	kept, err := b.Keys(ctx)
	all := make([]auth.Record, len(kept))
	for i, k := range kept {
		all[i] = auth.Record(k)
	}
	return all, err
}

type keysListCommand struct{}

// listedKey has the fields of a record that the list shows.
type listedKey struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Subject   string    `json:"subject"`
	Scopes    []string  `json:"scopes,omitempty"`
	State     string    `json:"state"` // active, expired, revoked
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

func (cmd *keysListCommand) Run(ctx context.Context, g globals, keys *keysCommand, c *console) error {
	b, err := keys.connect(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	all, err := records(ctx, b)
	if err != nil {
		return err
	}
	listed := make([]listedKey, len(all))
	for i, r := range all {
		listed[i] = listedKey{r.ID, r.Tenant, r.Subject, r.Scopes, stateOf(r, b.Now()), r.CreatedAt, r.ExpiresAt}
	}
	return list(g, c, listed, "KEY\tTENANT\tSUBJECT\tSCOPES\tSTATE\tCREATED\tEXPIRES", func(k listedKey) []string {
		expires := "never"
		if !k.ExpiresAt.IsZero() {
			expires = k.ExpiresAt.Local().Format(time.DateTime)
		}
		return []string{k.ID, k.Tenant, k.Subject, strings.Join(k.Scopes, " "), k.State, k.CreatedAt.Local().Format(time.DateTime), expires}
	})
}

func stateOf(r auth.Record, now time.Time) string {
	switch {
	case r.Revoked:
		return "revoked"
	case r.Active(now):
		return "active"
	default:
		return "expired"
	}
}

type keysRevokeCommand struct {
	ID string `arg:"" help:"Id of the key: its part before the last underscore."`
}

func (cmd *keysRevokeCommand) Run(ctx context.Context, g globals, keys *keysCommand, c *console) error {
	b, err := keys.connect(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	record, err := b.Key(ctx, cmd.ID)
	if errors.Is(err, bus.ErrNotFound) {
		return fmt.Errorf("key %q does not exist; `agentbus keys list` shows all keys", cmd.ID)
	}
	if err != nil {
		return err
	}
	record.Revoked = true
	if err := b.PutKey(ctx, record); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, map[string]string{"id": record.ID, "state": "revoked"})
	}
	_, err = fmt.Fprintln(c.out, "revoked", record.ID)
	return err
}
