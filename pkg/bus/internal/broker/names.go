package broker

import (
	"strings"
	"time"
)

// The durable consumers: one for each service, however many instances it has.
const (
	RunnerConsumer   = "agent-runner"
	ExecutorConsumer = "tool-executor"
	HistoryConsumer  = "history"
)

func (b *Conn) StreamName(kind string) string { return strings.ToUpper(b.Prefix) + "_" + kind }

func (b *Conn) EventsStream() string { return b.StreamName("EVENTS") }

func (b *Conn) ResultsStream() string { return b.StreamName("RESULTS") }

func (b *Conn) RequestsStream() string { return b.StreamName("REQUESTS") }

func (b *Conn) BacklogStream() string { return b.StreamName("BACKLOG") }

func (b *Conn) ToolsStream() string { return b.StreamName("TOOLS") }

func (b *Conn) ObjectsBucket() string { return b.StreamName("OBJECTS") }

func (b *Conn) Wildcard(kind string) string { return b.Prefix + "." + kind + ".>" }

// Parked returns the subject in the backlog for a subject in the queue, or for the beginning of one.
func (b *Conn) Parked(request string) string {
	return b.Prefix + "." + KindBacklog + request[len(b.Prefix)+1+len(KindRequest):]
}

// TenantWildcard is the subject of all messages of a kind that a tenant has.
func (b *Conn) TenantWildcard(kind, tenant string) string {
	return b.Prefix + "." + kind + "." + tenant + ".>"
}

// DefaultPrefix is the first token of every subject and, in capitals, the start of every stream's name.
const DefaultPrefix = "agentbus"

// Incarnation names the EVENTS stream that holds the logs now. It is "" until the stream has been verified.
func (b *Conn) Incarnation() string { return b.Events().Incarnation }

// MaxAge is how long the EVENTS stream keeps what it holds; 0 = no limit.
func (b *Conn) MaxAge() time.Duration { return b.Events().MaxAge }

// Replicated reports whether the streams have replicas, which may lag behind their leaders.
func (b *Conn) Replicated() bool { return b.Events().Replicas > 1 }
