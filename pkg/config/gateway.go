package config

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/redact"
)

// Gateway bounds what clients may do.
type Gateway struct {
	CORS          []string `yaml:"cors"`          // allowed origins; none = no cross-origin use
	MaxBody       int64    `yaml:"maxBody"`       // bytes; default 512 KiB
	RateLimit     Rate     `yaml:"rateLimit"`     // for each key; default 600 a minute
	Heartbeat     Duration `yaml:"heartbeat"`     // default 15s
	StreamTimeout Duration `yaml:"streamTimeout"` // longest response; default 1h
	// AdmissionTimeout ends a request whose stream has no event by then, with 504: no runner was free, or it waits on its
	// thread. 0 = it waits, and the response begins with the first heartbeat.
	AdmissionTimeout Duration         `yaml:"admissionTimeout"`
	Limits           ConnectionLimits `yaml:"limits"`
	Quotas           Quotas           `yaml:"quotas"`

	// TrustTraceparent lets requests join the trace that their client names, and be recorded when it says so: for a gateway
	// that only trusted services reach. Without it, the request's own trace has a link to that of the client.
	TrustTraceparent bool `yaml:"trustTraceparent"`

	Sessions   Sessions   `yaml:"sessions"`
	Webhooks   Webhooks   `yaml:"webhooks"`
	NATSAgents NATSAgents `yaml:"natsAgents"`

	// Identity lists the identity providers whose tokens are accepted in addition to API keys.
	Identity []IdentityProvider `yaml:"identity"`
}

// Webhooks say which receivers of notifications the gateway may call.
type Webhooks struct {
	Allow     []string `yaml:"allow"`     // hosts, addresses or CIDRs that receivers may have though they are not public
	PlainHTTP bool     `yaml:"plainHTTP"` // receivers may have http:// in addition to https://

	Receivers map[string]Receiver `yaml:"receivers"` // that are notified of the ends of requests, by name
}

// Receiver is a webhook: a server that is notified of the ends of requests.
type Receiver struct {
	URL           string   `yaml:"url"`
	SigningKeyEnv string   `yaml:"signingKeyEnv"` // variable with the key that signs notifications: whsec_ and base64
	Events        []string `yaml:"events"`        // of HookEvents; default all
	Agents        []string `yaml:"agents"`        // default all
	Tenants       []string `yaml:"tenants"`       // default all
}

// The events that webhooks are notified of.
const (
	HookDone    = "request.done"
	HookError   = "request.error"
	HookAborted = "request.aborted"
	HookOpened  = "action.opened" // the request has ended, and waits for the results of actions
)

// HookEvents lists the events that webhooks are notified of. The end of a request is one of them.
func HookEvents() []string { return []string{HookDone, HookError, HookAborted, HookOpened} }

// webhooks checks the receivers of notifications.
func (c checker) webhooks(w Webhooks) {
	c.allow("gateway.webhooks.allow", w.Allow)
	for name, r := range w.Receivers {
		path := join("gateway.webhooks.receivers", name)
		if !id.Valid(name) {
			c.report(path, "the name of a receiver must match ^[A-Za-z0-9_-]{1,64}$")
		}
		u, err := url.Parse(r.URL)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !w.PlainHTTP) {
			c.report(join(path, "url"), "%q is not the address of a receiver; write one such as https://hooks.example.com/agentbus", redact.URL(r.URL))
		}
		if r.SigningKeyEnv == "" || strings.ContainsAny(r.SigningKeyEnv, "= \n") || strings.HasPrefix(r.SigningKeyEnv, "whsec_") {
			c.report(join(path, "signingKeyEnv"), "must be the name of the environment variable with the key that signs notifications")
		}
		for i, event := range r.Events {
			if !slices.Contains(HookEvents(), event) {
				c.report(fmt.Sprintf("%s.events[%d]", path, i), "%q is not one of %s", event, strings.Join(HookEvents(), ", "))
			}
		}
	}
}

// NATSAgents serve agents to the clients of the broker, by the Synadia Agent Protocol.
type NATSAgents struct {
	Owner     string   `yaml:"owner"`     // in the subjects; none = no agent is served
	Session   string   `yaml:"session"`   // in the subjects; default agentbus
	Agents    []string `yaml:"agents"`    // default: all of the configuration
	Heartbeat Duration `yaml:"heartbeat"` // default 30s
	// Tenant and Subject are the principal of prompts without an API key; none = each prompt needs one where API keys are
	// required.
	Tenant  string `yaml:"tenant"`
	Subject string `yaml:"subject"`
}

func (n NATSAgents) isZero() bool { return reflect.ValueOf(n).IsZero() }

// DefaultAgent is the agent of sessions that name none.
const DefaultAgent = "demo"

// Sessions say what Tarko's clients get under /api/v1.
type Sessions struct {
	Agent     string `yaml:"agent"`     // of sessions that name none; default demo
	Exclusive bool   `yaml:"exclusive"` // no new session while another one of the tenant runs
	MaxBody   int64  `yaml:"maxBody"`   // bytes of a query, which may bring images; default 20 MiB. Where set, also of the other bodies and of messages of /ws
	// Workspaces are the folders, by tenant, that the tenant's people pick files from, by name; none = there is nothing to pick.
	Workspaces map[string]string `yaml:"workspaces"`
	Share      Share             `yaml:"share"`
	UI         string            `yaml:"ui"` // Tarko's user interface, an HTML file or the folder of one, served under /; none = no page
}

// Share says who takes the pages of sessions that people share.
type Share struct {
	Provider string   `yaml:"provider"` // URL that a page is posted to, and that answers with the page's; none = pages are downloaded
	Allow    []string `yaml:"allow"`    // hosts, addresses or CIDRs that it may be at though they are not public
}

// Rate is a number of requests in a time.
type Rate struct {
	Requests int      `yaml:"requests"`
	Per      Duration `yaml:"per"`
	Burst    int      `yaml:"burst"`
}

// Quotas bound how many requests are open, all gateways together: those that wait for a runner and those that run. And how
// many bytes history has stored.
type Quotas struct {
	TenantRequests int   `yaml:"tenantRequests"` // of a tenant; default 10000, and without keys any number
	KeyRequests    int   `yaml:"keyRequests"`    // of an API key; default any number
	TenantBytes    int64 `yaml:"tenantBytes"`    // of a tenant; default any number
	KeyBytes       int64 `yaml:"keyBytes"`       // of a principal, whichever of its API keys it uses; default any number
}

// ConnectionLimits bounds what one gateway does at once, and how long it waits.
type ConnectionLimits struct {
	Connections int      `yaml:"connections"` // of one address; default 1000, and of private addresses any number
	Streams     int      `yaml:"streams"`     // open streams of one principal; default 1000, and without keys any number
	Replays     int      `yaml:"replays"`     // streams that read old events from storage at one time; default 64
	Lists       int      `yaml:"lists"`       // lists of one principal that are read at one time; default 4, and without keys any number
	BodyTime    Duration `yaml:"bodyTime"`    // for a client to send a body; default 30s
	SendTime    Duration `yaml:"sendTime"`    // for a client to take a message of a WebSocket; default 15s
	IdleTime    Duration `yaml:"idleTime"`    // of a WebSocket that has joined no session and says nothing; default 2m
}
