// Package cluster runs agentbus as in production, each part as a separate process on loopback, so that each can be
// killed, frozen and disconnected: NATS (one node or three), Redis, PostgreSQL, and two of each service. Every
// connection of a service to a server passes through a proxy.
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
	"github.com/agentbus/agentbus/internal/pgserver"
	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
)

// Options say what to run.
type Options struct {
	Dir      string               // for data, configuration and logs; it exists
	Programs testcluster.Programs // see Build
	Nodes    int                  // of NATS: 1 or 3
	Sync     string               // sync_interval of NATS; "" = its default of two minutes
	Disks    bool                 // NATS writes to disks that can lose power, where the system allows that
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
	Secrets  []string          // strings that logs must not contain

	options Options
	layout  testcluster.Layout
	disks   []*disk // one for each NATS node; none if their power cannot be cut
	noDisks error   // why the requested disks do not exist
	nodes   []*Node
}

// Link is a proxy.
type Link = *proxy.Proxy

// Tenants are those that have a key.
func Tenants() []string { return []string{"ash", "birch"} }

// heartbeat is how often a gateway shows a quiet stream that it is alive.
const heartbeat = 2 * time.Second

// Heartbeat is how often a gateway shows a quiet stream that it is alive.
func Heartbeat() time.Duration { return heartbeat }

// startWait bounds the start of everything. It is long, for the machine may be slow and busy.
const startWait = 2 * time.Minute

// Start starts all processes and waits until they are ready. After an error no process remains. The caller must stop
// the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{options: o, layout: testcluster.Layout{Dir: o.Dir, Programs: o.Programs}, Keys: map[string]string{}}
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

// servers makes the nodes that are not services.
func (c *Cluster) servers(ctx context.Context) ([]*Node, error) {
	commands, err := c.layout.NATS(ctx, testcluster.NATSOptions{Nodes: c.options.Nodes, Sync: c.options.Sync})
	if err != nil {
		return nil, err
	}
	c.NATSURL = testcluster.NATSURL(commands)
	redis, err := c.layout.Redis(ctx)
	if err != nil {
		return nil, err
	}
	data, err := pgserver.New(ctx, filepath.Join(c.options.Dir, "postgres"))
	if err != nil {
		return nil, err
	}
	postgres, err := c.layout.Postgres(ctx, data)
	if err != nil {
		return nil, err
	}
	c.Database = pgserver.URL(postgres.Addr)
	for i, command := range append(commands, redis, postgres) {
		n := newNode(command)
		if i < len(c.disks) { // the NATS servers come first
			n.disk = c.disks[i]
		}
		c.nodes = append(c.nodes, n)
	}
	return c.Nodes(), nil
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
	err = testcluster.Await(ctx, func(ctx context.Context) error {
		attempt, done := context.WithTimeout(ctx, 10*time.Second)
		defer done()
		return look(b, attempt)
	})
	if err != nil {
		return fmt.Errorf("wait for the streams: %w", err)
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
	for _, kind := range testcluster.Services() {
		for i := range count(kind) {
			build, env := c.service, common
			if kind == testcluster.History && i == 0 || c.options.Weaken != "" { // it may be the streams that are weak
				env = slices.Concat(common, create)
			}
			if kind == testcluster.Agent {
				build = c.agent(Tenants()[i])
			}
			n, err := build(ctx, kind, env)
			if err != nil {
				return nil, err
			}
			made = append(made, n)
		}
	}
	return made, nil
}

// count is the number of processes of a service. There is one hub, and an agent-server for each tenant.
func count(kind testcluster.Kind) int {
	switch kind {
	case testcluster.Hub:
		return 1
	case testcluster.Agent:
		return len(Tenants())
	default:
		return 2
	}
}

func (c *Cluster) service(ctx context.Context, kind testcluster.Kind, env []string) (*Node, error) {
	proxies := map[testcluster.Kind][]Link{}
	for _, server := range []testcluster.Kind{testcluster.NATS, testcluster.Redis, testcluster.Postgres} {
		for _, target := range c.Find(server) {
			p, err := proxy.New(ctx, target.Addr)
			if err != nil {
				return nil, err
			}
			proxies[server] = append(proxies[server], p)
		}
	}
	var urls []string
	for _, p := range proxies[testcluster.NATS] {
		urls = append(urls, "nats://"+p.Addr())
	}
	command, err := c.layout.Service(ctx, kind, &testcluster.Servers{
		NATS:     strings.Join(urls, ","),
		Redis:    testcluster.RedisURL(proxies[testcluster.Redis][0].Addr()),
		Database: pgserver.URL(proxies[testcluster.Postgres][0].Addr()),
	}, env...)
	if err != nil {
		return nil, err
	}
	n := c.add(command, proxies)
	switch kind {
	case testcluster.Gateway:
		c.Gateways = append(c.Gateways, "http://"+n.Addr)
	case testcluster.Hub:
		c.Hub = "http://" + n.Addr
	default:
	}
	return n, nil
}

// add creates the node of a service. The service writes its observations into files with its name.
func (c *Cluster) add(command testcluster.Command, proxies map[testcluster.Kind][]Link) *Node {
	file := filepath.Join(c.options.Dir, command.Name)
	command.Env = append(command.Env, "AGENTBUS_JOURNAL="+file+".journal", "AGENTBUS_MARKS="+file+".marks")
	n := newNode(command)
	n.proxies = proxies
	c.nodes = append(c.nodes, n)
	return n
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

// NoDisks returns why the requested disks that can lose power do not exist, or nil.
func (c *Cluster) NoDisks() error { return c.noDisks }

// Find returns the nodes of a kind.
func (c *Cluster) Find(kind testcluster.Kind) []*Node {
	var found []*Node
	for _, n := range c.nodes {
		if n.Kind == kind {
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
  queueing:
    backend: scripted
    tools: [journal_none, journal_idempotent, journal_unsafe]
    onBusy: queue
    limits: {time: 5m}
  interrupting:
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
