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
	EndsConsumer     = "ends"       // of EVENTS: finds the requests that have ended
	DeliveryConsumer = "deliveries" // of DELIVERIES
)

// StreamName returns the name of the stream of a kind, in capitals.
func (b *Conn) StreamName(kind string) string { return strings.ToUpper(b.Prefix) + "_" + kind }

// EventsStream returns the name of the stream of logs and records.
func (b *Conn) EventsStream() string { return b.StreamName("EVENTS") }

// ResultsStream returns the name of the stream of tool results.
func (b *Conn) ResultsStream() string { return b.StreamName("RESULTS") }

// RequestsStream returns the name of the queue of pointers.
func (b *Conn) RequestsStream() string { return b.StreamName("REQUESTS") }

// BacklogStream returns the name of the stream of pointers that wait for the queue.
func (b *Conn) BacklogStream() string { return b.StreamName("BACKLOG") }

// ToolsStream returns the name of the queue of tool calls.
func (b *Conn) ToolsStream() string { return b.StreamName("TOOLS") }

// DeliveriesStream returns the name of the queue of deliveries to webhooks.
func (b *Conn) DeliveriesStream() string { return b.StreamName("DELIVERIES") }

// ObjectsBucket returns the name of the object store.
func (b *Conn) ObjectsBucket() string { return b.StreamName("OBJECTS") }

// Wildcard returns the subject of all messages of a kind.
func (b *Conn) Wildcard(kind string) string { return b.Prefix + "." + kind + ".>" }

// BacklogSubject returns the subject in the backlog for a subject in the queue, or for a prefix of one.
func (b *Conn) BacklogSubject(request string) string {
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

// MaxAge is how long the EVENTS stream keeps messages; 0 = no limit.
func (b *Conn) MaxAge() time.Duration { return b.Events().MaxAge }

// Replicated reports whether the streams have replicas, which may be older than their leaders.
func (b *Conn) Replicated() bool { return b.Events().Replicas > 1 }
