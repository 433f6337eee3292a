// Package gateway is the HTTP edge: it decodes requests of clients, accepts them, and streams their logs back. It never
// writes a log, and holds no state that another gateway would need: a client may reconnect to any gateway.
//
// Read ARCHITECTURE.md, "One request, step by step", then internal/admission (steps 2 to 5) and internal/stream (step
// 6).
package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/schemas"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/agentlist"
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/agentbus/agentbus/services/gateway/internal/webhook"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// Deps are the dependencies and settings of a gateway.
type Deps struct {
	Bus     *bus.Bus
	History historyapi.Client
	State   *rediscache.Store
	Config  config.Config

	// AuthRequired requires an API key of every caller, checked with Pepper. Otherwise every caller is auth.Dev, which
	// is for development on loopback only.
	AuthRequired bool
	Pepper       []byte

	// Secret returns a secret that the configuration names; nil = it names none.
	Secret func(name string) (string, error)

	Metrics       http.Handler         // served as /metrics; nil = not served
	MeterProvider metric.MeterProvider // nil = the global one
	Log           *slog.Logger         // nil = the default one
}

// Gateway serves HTTP. Its methods are safe for concurrent use.
type Gateway struct {
	bus      *bus.Bus
	keys     *auth.Keyring // nil = authentication is off
	remotes  *agentlist.Agents
	acceptor *admission.Acceptor
	streamer *stream.Streamer
	api      *api.API
	notifier *webhook.Notifier
	host     *protocol.Host
	limits   config.ConnectionLimits
	// listening ends with Drain: the protocols that do not use HTTP then take no more requests.
	listening context.Context //nolint:containedctx // of Run, which Drain must reach before Run as well
	unlisten  context.CancelFunc
	log       *slog.Logger
}

// New returns a gateway, or an error if the configuration is invalid. It does not connect to anything.
func New(d Deps) (*Gateway, error) {
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.MeterProvider == nil {
		d.MeterProvider = otel.GetMeterProvider()
	}
	var keys *auth.Keyring
	if d.AuthRequired {
		issuer, err := auth.NewIssuer(d.Pepper)
		if err != nil {
			return nil, fmt.Errorf("authentication is required: %w", err)
		}
		keys = auth.NewKeyring(issuer)
		if err := acceptTokens(keys, d); err != nil {
			return nil, err
		}
	}
	meter, err := metrics.New(d.MeterProvider)
	if err != nil {
		return nil, err
	}
	guard := authz.NewGuard(d.Bus, d.History)
	limits := d.Config.Gateway
	streamer := stream.NewStreamer(limits.Heartbeat.Or(15*time.Second), limits.StreamTimeout.Or(time.Hour), meter)
	if keys != nil {
		streamer.ExpireWith(keys.ExpiresAt, d.Bus.Now)
	}
	var secret []byte // without authentication there is none to seal with
	if d.AuthRequired {
		secret = d.Pepper
	}
	pushes, err := webhook.NewPushes(d.Bus, secret, limits.Webhooks.PlainHTTP, d.Log)
	if err != nil {
		return nil, err
	}
	acceptor := admission.New(d.Bus, d.History, d.State, guard, d.Log)
	remotes := new(agentlist.Agents)
	services := protocol.Services{
		Bus: d.Bus, History: d.History, State: d.State, Keys: keys, Guard: guard, Acceptor: acceptor,
		Logs: stream.NewLogs(d.Bus, d.History, meter), Streamer: streamer, Meter: meter, Config: d.Config, Remotes: remotes, Log: d.Log,
		Pushes: pushes,
	}
	served, err := protocols(services)
	if err != nil {
		return nil, err
	}
	notifier, err := webhook.New(webhook.Deps{
		Bus: d.Bus, Tasks: tasksOf(served), Pushes: pushes, Config: limits.Webhooks, Secret: d.Secret, Meter: meter, Log: d.Log,
	})
	if err != nil {
		return nil, err
	}
	host := protocol.NewHost(services)
	handler, err := api.New(api.Deps{
		Host: host, Protocols: served, Metrics: d.Metrics, OpenAPI: schemas.OpenAPI(), Log: d.Log,
	})
	if err != nil {
		return nil, err
	}
	listening, unlisten := context.WithCancel(context.Background())
	return &Gateway{
		bus: d.Bus, keys: keys, remotes: remotes, acceptor: acceptor, streamer: streamer, api: handler, notifier: notifier,
		host: host, limits: limits.Limits, listening: listening, unlisten: unlisten, log: d.Log,
	}, nil
}

// Handler returns the handler of all routes.
func (g *Gateway) Handler() http.Handler { return service.CloseChunked(g.api) }

// connections is the limit of connections of an address, except for private addresses.
const connections = 1000

// Limits of a connection of HTTP/2. A client that exceeds http2Streams is refused; one that resets streams faster than their
// handlers end loses its connection (net/http).
const (
	http2Streams    = 250              // open at one time
	http2Ping       = 30 * time.Second // time without traffic after which a connection is pinged
	http2PingAnswer = 15 * time.Second
	http2WriteTime  = 15 * time.Second // time for a client to receive bytes of its connection
)

// Server returns an HTTP server for addr with the limits of an edge service; [Gateway.Limit] adds those of connections.
// It serves HTTP/1.1 and HTTP/2, which a client selects by TLS or, without TLS, by its preface (h2c). The caller sets
// TLSConfig. The server has no common time limit for bodies and responses, because of the streams: the handler sets one
// for each.
func (g *Gateway) Server(addr string) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Addr:              addr,
		Handler:           g.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: http2Streams, SendPingTimeout: http2Ping, PingTimeout: http2PingAnswer, WriteByteTimeout: http2WriteTime,
		},
		ConnContext: limit.Mark,
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

// sendBuffer is the kernel's send buffer of a connection, in bytes: enough for a few megabytes per second over long
// distances.
const sendBuffer = 128 << 10

// Limit returns a listener for the server that limits the connections of each address and their send buffers.
func (g *Gateway) Limit(l net.Listener) net.Listener {
	l = limit.SendBuffer(l, sendBuffer)
	if n := g.limits.Connections; n > 0 {
		return limit.NewConnections(n, true).Listen(l)
	}
	return limit.NewConnections(connections, false).Listen(l)
}

// Backpressure returns why the gateway takes no new requests, or nil. It refuses them while the streams are nearly
// full.
func (g *Gateway) Backpressure(context.Context) error { return g.acceptor.Backpressure() }

// Run serves the protocols that do not use HTTP, keeps the API keys, the remote agents and the fullness of the streams up to
// date, and notifies webhooks, until ctx is done. Before it has read all keys, the gateway accepts none.
func (g *Gateway) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	if g.keys != nil {
		watches.Go(func() { g.watchKeys(ctx) })
	}
	watches.Go(func() { g.remotes.Watch(ctx, g.bus, g.log) })
	watches.Go(func() { g.notifier.Run(ctx) })
	for _, p := range g.api.Protocols {
		if l, ok := p.(protocol.Listener); ok {
			watches.Go(func() { g.listen(ctx, l) })
		}
	}
	g.acceptor.Watch(ctx)
	return nil
}

// listen serves the clients of a protocol that does not use HTTP, until ctx is done or Drain is called.
func (g *Gateway) listen(ctx context.Context, l protocol.Listener) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(g.listening, stop)() //nolint:contextcheck // prompts outlive the listener
	for ctx.Err() == nil {
		err := l.Listen(ctx, g.host)
		if err == nil {
			return
		}
		g.log.ErrorContext(ctx, "clients without HTTP are not served; trying again", "protocol", l.Name(), "error", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func (g *Gateway) watchKeys(ctx context.Context) {
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for ctx.Err() == nil {
		err := g.bus.WatchKeys(ctx, g.changeKey, g.keys.Loaded)
		if ctx.Err() == nil {
			g.log.WarnContext(ctx, "API keys are not watched; trying again", "error", err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
}

// changeKey stores a key's record, and ends the streams of a key that is revoked or has expired.
func (g *Gateway) changeKey(k bus.KeyRecord) {
	g.keys.Put(auth.Record(k))
	if k.Revoked {
		g.streamer.Revoke(k.ID)
	}
	g.streamer.Expire(k.ID, k.ExpiresAt)
}

// Drain makes the gateway unready and ends the open streams with a short reconnect delay, so that clients change to
// another gateway. New streams end at once; all other requests are still served.
func (g *Gateway) Drain() {
	g.unlisten()
	g.streamer.Drain()
}
