// Package mcp makes tools of what an MCP server offers (Model Context Protocol): a process that speaks over its standard
// input and output, or an HTTP address. The list of these tools is the server's, and may change at any time; see
// [Source.Run].
//
// Read source.go for how a connection is kept, tool.go for how a server's tools become ours, result.go for what their
// calls give, and stdio.go and http.go for the two ways to reach a server.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options describe a server. Either Command or URL is set.
type Options struct {
	Name string // of the source, the first part of the names of its tools

	Command string   // the program, with Args, in the folder Dir
	Args    []string // passed without a shell
	Env     []string // "name=value": all of its environment
	Dir     string   // "" = this process's own

	URL     string            // of streamable HTTP
	Headers map[string]string // sent to the URL's own origin alone
	OAuth   *OAuth            // nil = the URL needs no token, or Headers have one
	Allow   egress.AllowList  // what redirects may lead to though it is not public; the URL itself always may be reached

	Resources   bool // its resources are read by tools
	Prompts     bool // its prompts are read by tools
	Elicitation bool // the server may ask the user of a call
	Events      bool // its tools may emit events, by progress notifications: see [EventKey]

	Tools   []string // names of tools, as the server has them; nil = all, empty = none
	Version string   // of this program, for the server
	Log     *slog.Logger
}

// The times of a connection.
const (
	connectTime  = 30 * time.Second       // until a server must have listed its tools
	refreshEvery = time.Minute            // between two reads of its list, if it sends no notifications of changes
	calmTime     = time.Second            // between two reads of its list, however many changes it reports
	readyWait    = 10 * time.Second       // for a call to wait until there is a connection
	firstWait    = 500 * time.Millisecond // before a connection is tried again
	maxWait      = 30 * time.Second
	steady       = time.Minute // after this long the next wait is short again
)

// Source is a server and the connection to it. It is safe for concurrent use.
type Source struct {
	options Options
	calls   progress
	open    *openCalls

	mu  sync.Mutex
	now view
}

// view is what is known of the server at one moment.
type view struct {
	link  *link                // nil = not connected
	tools map[string]tool.Tool // by our names; kept while the connection is away. nil = they were never listed
	why   error                // reason for a missing connection
	over  chan struct{}        // closed when another view has taken its place
}

// New returns a source that is not connected: see [Source.Run].
func New(o Options) (*Source, error) {
	if !id.Valid(o.Name) || len(o.Name) > MaxName {
		return nil, fmt.Errorf("MCP server %q: its name has letters, digits, _ and - only, at most %d", o.Name, MaxName)
	}
	if (o.Command == "") == (o.URL == "") {
		return nil, fmt.Errorf("MCP server %s: it needs either a command or a URL", o.Name)
	}
	if o.URL != "" {
		if _, err := o.allowed(); err != nil {
			return nil, fmt.Errorf("MCP server %s: %w", o.Name, err)
		}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Log = o.Log.With("mcp", o.Name)
	s := &Source{options: o, open: newOpenCalls()}
	s.now = view{why: errors.New("it is being connected for the first time"), over: make(chan struct{})}
	return s, nil
}

// Name is the first part of the names of the source's tools.
func (s *Source) Name() string { return s.options.Name }

// Run keeps a connection to the server until ctx is done: what breaks is connected again, after a while that grows. It
// calls found with the list of tools whenever that has been read, at least once a minute, from one goroutine.
func (s *Source) Run(ctx context.Context, found func(context.Context, []tool.Spec)) {
	defer s.open.end()
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		begun := time.Now()
		err := s.serve(ctx, found)
		if ctx.Err() != nil {
			s.replace(func(v *view) { v.link, v.why = nil, errors.New("this process is shutting down") })
			return
		}
		s.replace(func(v *view) { v.link, v.why = nil, err })
		if time.Since(begun) > steady {
			wait = firstWait
		}
		s.options.Log.WarnContext(ctx, "an MCP server is not connected; trying again", "error", err, "in", wait.String())
		select {
		case <-time.After(wait/2 + rand.N(wait/2)): //nolint:gosec // jitter is no secret
		case <-ctx.Done():
		}
	}
}

// serve connects once, and returns why the connection is no more.
func (s *Source) serve(ctx context.Context, found func(context.Context, []tool.Spec)) error {
	l, err := s.connect(ctx)
	if err != nil {
		return err
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer l.close()
	ended := make(chan error, 1)
	waiting.Go(func() { ended <- cmp.Or(l.session.Wait(), errEnded) })
	refresh := time.NewTicker(refreshEvery)
	defer refresh.Stop()
	var before offer
	for {
		calm := time.NewTimer(calmTime)
		now, err := s.list(ctx, l)
		if err != nil {
			return l.explain(err)
		}
		s.replace(func(v *view) { v.link, v.tools, v.why = l, now.tools, nil })
		s.logLeftOut(ctx, before, now)
		found(ctx, now.specs)
		before = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return l.explain(err)
		case <-l.gone:
			return errGone
		case <-l.changed:
		case <-refresh.C:
		}
		select {
		case <-calm.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// logLeftOut logs which tools of an offer are left out, once.
func (s *Source) logLeftOut(ctx context.Context, before, now offer) {
	if slices.Equal(before.left, now.left) {
		return
	}
	for _, why := range now.left {
		s.options.Log.WarnContext(ctx, "a tool of an MCP server is left out", "reason", why)
	}
}

var (
	errEnded = errors.New("the server has ended the connection")
	errGone  = errors.New("the server has forgotten the session")
)

func (s *Source) replace(change func(*view)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.now.over)
	change(&s.now)
	s.now.over = make(chan struct{})
}

func (s *Source) look() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// await returns the first view that fits. It waits for a while, and then fails with what kept the server away.
func (s *Source) await(ctx context.Context, fits func(view) bool) (view, error) {
	late := time.NewTimer(readyWait)
	defer late.Stop()
	for {
		v := s.look()
		if fits(v) {
			return v, nil
		}
		select {
		case <-v.over:
		case <-ctx.Done():
			return v, ctx.Err()
		case <-late.C:
			return v, apierr.Wrap(v.why, apierr.ToolError,
				"the MCP server %s is not connected, so the call did not run; try again later, or continue without it", s.options.Name)
		}
	}
}

// Tool returns the tool of that name. It waits a while for a server that has never been reached. An error is a
// *apierr.Error with apierr.ToolError, or ctx's.
func (s *Source) Tool(ctx context.Context, name string) (tool.Tool, error) {
	v, err := s.await(ctx, func(v view) bool { return v.tools != nil })
	if err != nil {
		return nil, err
	}
	t, ok := v.tools[name]
	if !ok {
		return nil, apierr.New(apierr.ToolError, "the MCP server %s has no tool %.64q any more", s.options.Name, name)
	}
	return t, nil
}

// link is one connection.
type link struct {
	session *sdk.ClientSession
	child   *child        // nil = the server is reached by HTTP
	changed chan struct{} // holds a token when the list of tools has changed
	gone    chan struct{} // closed when the server has lost the session
	forget  func()        // closes gone
	asking  asking
}

func (s *Source) connect(ctx context.Context) (*link, error) {
	l := &link{changed: make(chan struct{}, 1), gone: make(chan struct{})}
	l.forget = sync.OnceFunc(func() { close(l.gone) })
	options := &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},                  // no roots, no sampling
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}, // the user's answer takes longer than a connection lasts
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case l.changed <- struct{}{}:
			default: // a look is due already
			}
		},
	}
	if s.options.Elicitation {
		options.Capabilities.Elicitation = &sdk.ElicitationCapabilities{
			Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
		}
		options.ElicitationHandler = func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return l.asking.ask(ctx, r.Params), nil
		}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "agentbus", Version: cmp.Or(s.options.Version, "dev")}, options)
	transport, err := s.transport(l)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if l.session, err = client.Connect(ctx, transport, nil); err != nil {
		err = l.explain(fmt.Errorf("connect: %w", err))
		l.close()
		return nil, err
	}
	return l, nil
}

func (s *Source) transport(l *link) (sdk.Transport, error) {
	if s.options.URL == "" {
		child, err := start(s.options)
		if err != nil {
			return nil, err
		}
		l.child = child
		return &sdk.IOTransport{Reader: s.tap(child), Writer: child}, nil
	}
	client, err := s.options.client(l.forget, s.tap)
	if err != nil {
		return nil, err
	}
	transport := &sdk.StreamableClientTransport{Endpoint: s.options.URL, HTTPClient: client}
	if s.options.OAuth != nil {
		if transport.OAuthHandler, err = s.options.oauthHandler(); err != nil {
			return nil, err
		}
	}
	return transport, nil
}

// close ends the connection, and the server's processes. It may be called twice.
func (l *link) close() {
	if c := l.asking.call.Load(); c != nil {
		c.stop() // the session would wait for the user's answer
	}
	if l.child != nil {
		_ = l.child.Close() // first: the session would wait for the answers of a process that hangs
	}
	if l.session != nil {
		_ = l.session.Close() // what a server says to our leaving changes nothing
	}
}

// explain adds what a process said last.
func (l *link) explain(err error) error {
	if l.child == nil {
		return err
	}
	if said := l.child.said.String(); said != "" {
		return fmt.Errorf("%w; the server said: %s", err, said)
	}
	return err
}
