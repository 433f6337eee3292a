package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/keyseal"
	"github.com/agentbus/agentbus/pkg/record"
)

// Limits of the receivers of a thread's tasks.
const (
	maxPushes = 32
	maxURL    = 2048
	attempts  = 20 // of a change, while others change the same record
)

// Pushes are the receivers of push notifications about tasks. It is safe for concurrent use.
type Pushes struct {
	bus       *bus.Bus
	vault     *keyseal.Vault // nil = credentials are stored as they are
	plainHTTP bool
	log       *slog.Logger
}

// NewPushes returns the receivers that a bus stores. Their credentials are sealed under a secret; nil = they are not.
func NewPushes(b *bus.Bus, secret []byte, plainHTTP bool, log *slog.Logger) (*Pushes, error) {
	p := &Pushes{bus: b, plainHTTP: plainHTTP, log: log}
	if secret == nil {
		return p, nil
	}
	var err error
	if p.vault, err = keyseal.New(secret, keyseal.WebhookSecrets); err != nil {
		return nil, fmt.Errorf("seal the credentials of webhooks: %w", err)
	}
	return p, nil
}

// CheckURL returns an error if a receiver cannot have an address. Whether it is on the public Internet is checked at each delivery.
func (p *Pushes) CheckURL(address string) error {
	u, err := url.Parse(address)
	schemes := "https"
	if p.plainHTTP {
		schemes = "https or http"
	}
	switch {
	case len(address) > maxURL:
		return apierr.New(apierr.InvalidMessageFormat, "url has %d bytes; at most %d are allowed", len(address), maxURL)
	case err != nil, u.Hostname() == "", u.Scheme != "https" && (u.Scheme != "http" || !p.plainHTTP):
		return apierr.New(apierr.InvalidMessageFormat, "url %.80q is not an absolute URL with %s", address, schemes)
	case u.User != nil:
		return apierr.New(apierr.InvalidMessageFormat, "url contains a user name; send credentials in a member of their own")
	}
	return nil
}

// Add adds a receiver, or replaces the one with the same id.
func (p *Pushes) Add(ctx context.Context, tenant, threadID string, push bus.TaskPush) error {
	push.Token, push.Credentials = p.seal(push, push.Token), p.seal(push, push.Credentials)
	return p.change(ctx, tenant, threadID, func(all []bus.TaskPush) ([]bus.TaskPush, error) {
		if i := slices.IndexFunc(all, sameAs(push.TaskID, push.ID)); i >= 0 {
			all[i] = push
			return all, nil
		}
		if len(all) >= maxPushes {
			return nil, apierr.New(apierr.InvalidMessageFormat, "the context has %d push notification configurations already; delete one", maxPushes)
		}
		return append(all, push), nil
	})
}

// Remove removes a receiver, and reports whether it existed.
func (p *Pushes) Remove(ctx context.Context, tenant, threadID, taskID, pushID string) (found bool, err error) {
	err = p.change(ctx, tenant, threadID, func(all []bus.TaskPush) ([]bus.TaskPush, error) {
		before := len(all)
		all = slices.DeleteFunc(all, sameAs(taskID, pushID))
		found = len(all) < before
		return all, nil
	})
	return found, err
}

// List returns the receivers of a task, by their ids.
func (p *Pushes) List(ctx context.Context, tenant, threadID, taskID string) ([]bus.TaskPush, error) {
	stored, _, err := p.bus.TaskPushes(ctx, tenant, threadID)
	if err != nil {
		return nil, err
	}
	var own []bus.TaskPush
	for _, push := range stored.Configs {
		if push.TaskID != taskID {
			continue
		}
		if push, err = p.open(push); err != nil {
			return nil, err
		}
		own = append(own, push)
	}
	return own, nil
}

// find returns the receiver of a delivery.
func (p *Pushes) find(ctx context.Context, d record.Delivery) (push bus.TaskPush, found bool, err error) {
	all, err := p.List(ctx, d.Tenant, d.ThreadID, d.TaskID)
	if err != nil {
		return push, false, err
	}
	for _, push := range all {
		if webhookID(d.Tenant, push) == d.WebhookID {
			return push, true, nil
		}
	}
	return push, false, nil
}

func sameAs(taskID, pushID string) func(bus.TaskPush) bool {
	return func(p bus.TaskPush) bool { return p.TaskID == taskID && p.ID == pushID }
}

// change replaces the receivers of a thread by what edit returns for the current ones. It repeats that when another process was
// first.
func (p *Pushes) change(ctx context.Context, tenant, threadID string, edit func([]bus.TaskPush) ([]bus.TaskPush, error)) error {
	for range attempts {
		stored, revision, err := p.bus.TaskPushes(ctx, tenant, threadID)
		if err != nil {
			return err
		}
		before := len(stored.Configs)
		if stored.Configs, err = edit(stored.Configs); err != nil {
			return err
		}
		if before == 0 && len(stored.Configs) == 0 {
			return nil
		}
		if err = p.bus.PutTaskPushes(ctx, stored, revision); !errors.Is(err, bus.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("change the push notifications of thread %s: %w", threadID, bus.ErrConflict)
}

// owner binds what is sealed to its task.
func owner(push bus.TaskPush) string { return push.TaskID + " " + push.ID }

func (p *Pushes) seal(push bus.TaskPush, text string) string {
	if p.vault == nil || text == "" {
		return text
	}
	return p.vault.Seal(owner(push), text)
}

func (p *Pushes) open(push bus.TaskPush) (bus.TaskPush, error) {
	if p.vault == nil {
		return push, nil
	}
	for _, text := range []*string{&push.Token, &push.Credentials} {
		if *text == "" {
			continue
		}
		var err error
		if *text, err = p.vault.Open(owner(push), *text); err != nil {
			return push, err
		}
	}
	return push, nil
}
