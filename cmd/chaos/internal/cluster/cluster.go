// Package cluster runs agentbus as it runs in production, each part a process of its own on loopback, so that each can
// be killed, frozen and cut off: NATS (one node or three), Redis, PostgreSQL, and two of each service. Every connection
// of a service to a server goes through a proxy.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/proxy"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
)

// Options say what to run.
type Options struct {
	Dir      string   // for data, configuration and logs; it exists
	Programs Programs // see Build
	Nodes    int      // of NATS: 1 or 3
	Sync     string   // sync_interval of NATS; "" = its default of two minutes
	Disks    bool     // NATS writes to disks that can lose power, where the system allows that
	AckWait  time.Duration
	Weaken   string // name of a safeguard that the services go without; "" = none
}

// Cluster is one that runs.
type Cluster struct {
	Gateways []string // URLs
	Hub      string   // URL of the hub
	NATSURL  string   // direct, past the proxies
	Database string
	Keys     map[string]string // API keys by tenant
	Secrets  []string          // what must stand in no log

	options Options
	disks   []*disk // one for each NATS node; none if their power cannot be cut
	noDisks error   // why there are none, though they were asked for
	nodes   []*Node
	ports   ports
}

// Spoilt is a proxy.
type Spoilt = *proxy.Proxy

// Tenants are those that have a key.
func Tenants() []string { return []string{"ash", "birch"} }

// heartbeat is how often a gateway shows a quiet stream that it is alive.
const heartbeat = 2 * time.Second

// Heartbeat is how often a gateway shows a quiet stream that it is alive.
func Heartbeat() time.Duration { return heartbeat }

// startWait bounds the start of everything. It is long, for the machine may be slow and busy.
const startWait = 2 * time.Minute

// Start starts everything and waits until it is ready. On an error nothing stays behind. Stop it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{options: o, Keys: map[string]string{}}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if c.options.Disks {
		c.disks, c.noDisks = newDisks(c.options.Dir, c.options.Nodes)
	}
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	for _, n := range servers {
		c.nodes = append(c.nodes, n)
		n.Up()
	}
	for _, n := range servers {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	services, err := c.services(ctx)
	if err != nil {
		return err
	}
	if c.options.Weaken != "" { // the services may make streams that Verify refuses, and change those that exist
		if err := c.open(ctx, c.provision); err != nil {
			return err
		}
	}
	for _, n := range services {
		n.Up()
	}
	if c.options.Weaken == "" {
		if err := c.open(ctx, (*bus.Bus).Verify); err != nil {
			return err
		}
	}
	for _, n := range services {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	return c.register(ctx)
}

// pepper is what the services hash keys with.
const pepper = "pepper-that-must-stand-in-no-log"

// provision makes the streams.
func (c *Cluster) provision(b *bus.Bus, ctx context.Context) error { //nolint:revive // as a method expression of the bus has it
	return b.Provision(ctx, bus.Storage{Replicas: c.options.Nodes, AckWait: c.options.AckWait, MaxBytes: -1})
}

// open waits until the streams are there, as look sees it, and makes a key for each tenant.
func (c *Cluster) open(ctx context.Context, look func(*bus.Bus, context.Context) error) error {
	b, err := bus.Connect(ctx, bus.Options{URL: c.NATSURL, Name: "chaos"})
	if err != nil {
		return err
	}
	defer b.Close()
	for {
		attempt, done := context.WithTimeout(ctx, 10*time.Second)
		err := look(b, attempt)
		done()
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the streams: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		return err
	}
	for _, tenant := range Tenants() {
		key, record, err := issuer.New(tenant, "user-of-"+tenant, nil, 0, nil)
		if err != nil {
			return err
		}
		if err := b.PutKey(ctx, bus.KeyRecord(record)); err != nil {
			return err
		}
		c.Keys[tenant] = key
		c.Secrets = append(c.Secrets, key)
	}
	c.Secrets = append(c.Secrets, pepper, hubSecret)
	return nil
}

// services makes two nodes of each service. History makes the streams, and the others wait for them.
func (c *Cluster) services(ctx context.Context) ([]*Node, error) {
	file := filepath.Join(c.options.Dir, "agentbus.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	common := []string{
		"CONFIG_FILE=" + file, "KEY_PEPPER=" + pepper, "HUB_SECRET=" + hubSecret, "GRACE=10s", "AGENTBUS_WEAKEN=" + c.options.Weaken,
	}
	create := []string{ // without a limit: full disks are faults
		"NATS_PROVISION=create", "NATS_ACK_WAIT=" + c.options.AckWait.String(), "NATS_REPLICAS=" + strconv.Itoa(c.options.Nodes),
		"NATS_MAX_BYTES=-1",
	}
	var made []*Node
	for _, kind := range Services() {
		for i := range kind.count() {
			build, name, env := c.service, fmt.Sprintf("%s-%d", kind, i), common
			if kind == History && i == 0 || c.options.Weaken != "" { // it may be the streams that are weak
				env = slices.Concat(common, create)
			}
			if kind == Agent {
				build = c.agent(Tenants()[i])
			}
			n, err := build(ctx, kind, name, env)
			if err != nil {
				return nil, err
			}
			made = append(made, n)
		}
	}
	return made, nil
}

func (c *Cluster) service(ctx context.Context, kind Kind, name string, common []string) (*Node, error) {
	admin, addr := c.ports.next(ctx), c.ports.next(ctx)
	proxies := map[Kind][]Spoilt{}
	for _, server := range []Kind{NATS, Redis, Postgres} {
		for _, target := range c.Find(server) {
			p, err := proxy.New(ctx, target.Addr)
			if err != nil {
				return nil, err
			}
			proxies[server] = append(proxies[server], p)
		}
	}
	var urls []string
	for _, p := range proxies[NATS] {
		urls = append(urls, "nats://"+p.Addr())
	}
	n := newNode(program{
		name: name, kind: kind, path: c.options.Programs[string(kind)], dir: c.options.Dir,
		env: append([]string{
			"ADMIN_ADDR=" + admin, "HTTP_ADDR=" + addr, "NATS_URL=" + strings.Join(urls, ","),
			"REDIS_URL=redis://" + proxies[Redis][0].Addr() + "/0", "DATABASE_URL=" + database(proxies[Postgres][0].Addr()),
			"AGENTBUS_JOURNAL=" + filepath.Join(c.options.Dir, name+".journal"),
			"AGENTBUS_MARKS=" + filepath.Join(c.options.Dir, name+".marks"),
		}, common...),
		ready: answers("http://" + admin + "/readyz"),
	})
	n.Admin, n.Addr, n.proxies = "http://"+admin, addr, proxies
	c.nodes = append(c.nodes, n)
	switch kind {
	case Gateway:
		c.Gateways = append(c.Gateways, "http://"+addr)
	case Hub:
		c.Hub = "http://" + addr
	}
	return n, nil
}

// Nodes are all of them.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Shape is what of a cluster decides about the faults that it can have.
type Shape struct {
	Nodes int  // of NATS
	Disks bool // of NATS can lose power
}

// Shape is the cluster's.
func (c *Cluster) Shape() Shape { return Shape{Nodes: c.options.Nodes, Disks: len(c.disks) > 0} }

// NoDisks is why no disk can lose power, though that was asked for; nil when one can, or nobody asked.
func (c *Cluster) NoDisks() error { return c.noDisks }

// Find returns the nodes of a kind.
func (c *Cluster) Find(kind Kind) []*Node {
	var found []*Node
	for _, n := range c.nodes {
		if n.kind == kind {
			found = append(found, n)
		}
	}
	return found
}

// Files returns the files that the services have written, by the end of their names.
func (c *Cluster) Files(suffix string) ([]string, error) {
	return filepath.Glob(filepath.Join(c.options.Dir, "*"+suffix))
}

// Heal undoes every fault, and waits until everything is ready.
func (c *Cluster) Heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for _, n := range c.nodes {
		n.Resume()
		for _, p := range n.all() {
			p.Set(proxy.Mode{})
		}
		n.Up()
	}
	for _, n := range c.nodes {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends everything at once.
func (c *Cluster) Stop() error {
	for _, n := range slices.Backward(c.nodes) {
		n.Resume()
		n.close()
		for _, p := range n.all() {
			p.Close()
		}
	}
	return removeDisks(c.disks)
}

// configuration is the YAML file of the services.
const configuration = `gateway:
  rateLimit: {requests: 1000000, per: 1s, burst: 1000000}
  heartbeat: 2s
  limits: {lists: 64}
hub: {plainHTTP: true, allow: [127.0.0.0/8], offlineAfter: 5s}
agents:
  demo:
    backend: scripted
    tools: [journal_none, journal_idempotent, journal_unsafe, journal_approved, calculator, echo]
    limits: {time: 5m}
  patient:
    backend: scripted
    tools: [journal_none, journal_idempotent, journal_unsafe]
    onBusy: queue
    limits: {time: 5m}
  hasty:
    backend: scripted
    tools: [journal_none, journal_idempotent, journal_unsafe]
    onBusy: interrupt
    limits: {time: 5m}
  lead:
    backend: scripted
    tools: [journal_none, journal_idempotent, journal_unsafe]
    agents: [deputy, helper]
    limits: {time: 5m}
  deputy:
    backend: scripted
    tools: [journal_none, journal_idempotent, journal_unsafe, journal_approved]
    agents: [helper, clerk]
    limits: {time: 5m}
  helper:
    backend: scripted
    tools: [journal_none, journal_idempotent, journal_unsafe, journal_approved]
    limits: {time: 5m}
  clerk:
    backend: scripted
    tools: [journal_none, journal_idempotent, journal_unsafe]
    limits: {time: 5m}
`
