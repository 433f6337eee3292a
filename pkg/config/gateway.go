package config

import "reflect"

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

	Sessions Sessions `yaml:"sessions"`
	Webhooks Webhooks `yaml:"webhooks"`
}

// Webhooks say which receivers of notifications the gateway may call.
type Webhooks struct {
	Allow     []string `yaml:"allow"`     // hosts, addresses or CIDRs that receivers may have though they are not public
	PlainHTTP bool     `yaml:"plainHTTP"` // receivers may have http:// in addition to https://
}

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

func (s Sessions) isZero() bool { return reflect.ValueOf(s).IsZero() }

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
