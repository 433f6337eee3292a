// Package gateway is the HTTP edge: it decodes what clients send, accepts it as a request, and streams the request's log
// back. It never writes a log, and keeps nothing that another gateway would need: a client may come back to any of them.
//
// Read ARCHITECTURE.md, "One request, step by step", then internal/admission (steps 2 to 5) and internal/stream (step 6).
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
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// Deps are what a gateway works with.
type Deps struct {
	Bus     *bus.Bus
	History historyapi.Client
	State   *rediscache.Store
	Config  config.Config

	// AuthRequired asks every caller for an API key, checked under Pepper. Without it everybody is auth.Dev: for
	// development on loopback only.
	AuthRequired bool
	Pepper       []byte

	Metrics       http.Handler         // served as /metrics; nil = not served here
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
	limits   config.Crowd
	log      *slog.Logger
}

// New returns a gateway. It fails on a configuration that cannot work, and asks nobody for anything.
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
	acceptor := admission.New(d.Bus, d.History, d.State, guard, d.Log)
	remotes := new(agentlist.Agents)
	services := protocol.Services{
		Bus: d.Bus, History: d.History, State: d.State, Keys: keys, Guard: guard, Acceptor: acceptor,
		Logs: stream.NewLogs(d.Bus, d.History, meter), Streamer: streamer, Meter: meter, Config: d.Config, Remotes: remotes, Log: d.Log,
	}
	served, err := protocols(services)
	if err != nil {
		return nil, err
	}
	handler, err := api.New(api.Deps{
		Host: protocol.NewHost(services), Protocols: served, Metrics: d.Metrics, OpenAPI: schemas.OpenAPI(), Log: d.Log,
	})
	if err != nil {
		return nil, err
	}
	return &Gateway{
		bus: d.Bus, keys: keys, remotes: remotes, acceptor: acceptor, streamer: streamer, api: handler, limits: limits.Limits, log: d.Log,
	}, nil
}

// Handler serves everything that the gateway serves.
func (g *Gateway) Handler() http.Handler { return service.CloseChunked(g.api) }

// connections is how many connections an address may have that is not private.
const connections = 1000

// Limits of a connection of HTTP/2. A client that exceeds http2Streams is refused; one that resets streams faster than their
// handlers end loses its connection (net/http).
const (
	http2Streams    = 250              // open at one time
	http2Ping       = 30 * time.Second // after which a connection that sends nothing is asked whether it is alive
	http2PingAnswer = 15 * time.Second
	http2WriteTime  = 15 * time.Second // for a client to take some bytes of its connection
)

// Server returns an HTTP server for addr with the limits that an edge needs; those of connections are [Gateway.Limit]'s. It
// serves HTTP/1.1 and HTTP/2, which a client negotiates with TLS, and begins with its preface without TLS (h2c). TLS is the
// caller's, by TLSConfig. Neither bodies nor responses have a common time limit here, since streams last: the handler sets
// one for each.
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

// sendBuffer is what the kernel may buffer of an answer, in bytes: enough for a few megabytes a second over long distances.
const sendBuffer = 128 << 10

// Limit returns a listener for the server that counts the connections of each address and bounds their send buffers.
func (g *Gateway) Limit(l net.Listener) net.Listener {
	l = limit.SendBuffer(l, sendBuffer)
	if n := g.limits.Connections; n > 0 {
		return limit.NewConnections(n, true).Listen(l)
	}
	return limit.NewConnections(connections, false).Listen(l)
}

// Room reports why the gateway takes no new requests: the streams are nearly full. nil while they have room.
func (g *Gateway) Room(context.Context) error { return g.acceptor.Backpressure() }

// Run keeps the API keys, the remote agents and what is known of the streams up to date until ctx is done. Until it has read all keys,
// none opens anything.
func (g *Gateway) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	if g.keys != nil {
		watches.Go(func() { g.watchKeys(ctx) })
	}
	watches.Go(func() { g.remotes.Watch(ctx, g.bus, g.log) })
	g.acceptor.Watch(ctx)
	return nil
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

// changeKey takes over a key's record, and cuts the streams of a key that was revoked, or has expired by that record.
func (g *Gateway) changeKey(k bus.KeyRecord) {
	g.keys.Put(auth.Record(k))
	if k.Revoked {
		g.streamer.Revoke(k.ID)
	}
	g.streamer.Expire(k.ID, k.ExpiresAt)
}

// Drain makes the gateway unready and ends the open streams, with a hint to come back soon: to another gateway. New
// streams end at once; everything else is still served.
func (g *Gateway) Drain() { g.streamer.Drain() }
