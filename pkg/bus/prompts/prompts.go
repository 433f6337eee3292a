// Package prompts serves agents to the clients of the broker, by the Synadia Agent Protocol: each agent is a micro service
// "agents", which gets a prompt as a message and responds with a stream of messages.
package prompts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// The names that the protocol prescribes.
const (
	serviceName = "agents" // of the services, and their queue group
	version     = "0.3"    // of the protocol
)

// maxConcurrent is how many prompts a process answers at one time; one more is refused.
const maxConcurrent = 1000

// Inbox serves prompts. It is safe for concurrent use.
type Inbox struct{ conn *broker.Conn }

// New returns the inbox that uses a connection.
func New(conn *broker.Conn) *Inbox { return &Inbox{conn} }

// PromptOptions say which agents are served, and under which names.
type PromptOptions struct {
	Agents     map[string]string // descriptions by name
	Owner      string            // the fourth token of the subjects
	Session    string            // the fifth
	MaxPayload int64             // of a prompt, in bytes; the limit of the server applies too
	Heartbeat  time.Duration     // at least a second
}

// limit is the largest prompt that reaches this process, in bytes.
func (o PromptOptions) limit(conn *nats.Conn) int64 { return min(o.MaxPayload, conn.MaxPayload()) }

// ServePrompts calls handle for each prompt, in its own goroutine, until ctx is done. It then takes no more prompts and waits
// for those that run. Instances that serve the same names share the prompts.
func (i *Inbox) ServePrompts(ctx context.Context, o PromptOptions, handle func(*Prompt)) error {
	s := &server{inbox: i, options: o, handle: handle, slots: make(chan struct{}, maxConcurrent)}
	defer s.running.Wait()
	var services []micro.Service
	stop := func() (err error) {
		for _, service := range services {
			if stopped := service.Stop(); !errors.Is(stopped, nats.ErrConnectionClosed) {
				err = errors.Join(err, stopped)
			}
		}
		return err
	}
	for agent, description := range o.Agents {
		service, err := s.add(agent, description)
		if err != nil {
			return errors.Join(fmt.Errorf("serve the agent %s on the broker: %w", agent, err), stop())
		}
		services = append(services, service)
	}
	beat := time.NewTicker(o.Heartbeat)
	defer beat.Stop()
	for {
		for _, service := range services {
			s.publishHeartbeat(service.Info())
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return stop()
		}
	}
}

// server serves the agents of one call.
type server struct {
	inbox   *Inbox
	options PromptOptions
	handle  func(*Prompt)
	slots   chan struct{}
	running sync.WaitGroup
}

// subject returns the subject of an agent for a verb of the protocol.
func (s *server) subject(verb, agent string) string {
	return strings.Join([]string{serviceName, verb, agent, s.options.Owner, s.options.Session}, ".")
}

// add registers the service of an agent.
func (s *server) add(agent, description string) (micro.Service, error) {
	service, err := micro.AddService(s.inbox.conn.NATS, micro.Config{
		Name: serviceName, Version: "1.0.0", Description: description, QueueGroup: serviceName,
		Metadata: map[string]string{"agent": agent, "owner": s.options.Owner, "session": s.options.Session, "protocol_version": version},
	})
	if err != nil {
		return nil, err
	}
	prompt := micro.HandlerFunc(func(r micro.Request) { s.take(agent, r) })
	status := micro.HandlerFunc(func(r micro.Request) {
		if !isReply(r.Reply()) {
			return
		}
		if err := r.RespondJSON(s.heartbeat(service.Info())); err != nil {
			slog.Warn("could not respond", "subject", r.Subject(), "error", err)
		}
	})
	err = errors.Join(
		service.AddEndpoint("prompt", prompt, micro.WithEndpointSubject(s.subject("prompt", agent)), micro.WithEndpointMetadata(map[string]string{
			"max_payload": strconv.FormatInt(s.options.limit(s.inbox.conn.NATS), 10) + "B", "attachments_ok": "true",
		})),
		service.AddEndpoint("status", status, micro.WithEndpointSubject(s.subject("status", agent))),
	)
	if err != nil {
		return nil, errors.Join(err, service.Stop())
	}
	return service, nil
}

// heartbeat is the sign of life of an agent.
type heartbeat struct {
	Agent      string    `json:"agent"`
	Owner      string    `json:"owner"`
	Session    string    `json:"session"`
	InstanceID string    `json:"instance_id"`
	At         time.Time `json:"ts"`
	Interval   float64   `json:"interval_s"`
}

func (s *server) heartbeat(service micro.Info) heartbeat {
	m := service.Metadata
	return heartbeat{m["agent"], m["owner"], m["session"], service.ID, s.inbox.conn.Now().UTC(), s.options.Heartbeat.Seconds()}
}

func (s *server) publishHeartbeat(service micro.Info) {
	body, err := json.Marshal(s.heartbeat(service))
	if err == nil {
		err = s.inbox.conn.NATS.Publish(s.subject("hb", service.Metadata["agent"]), body)
	}
	if err != nil {
		slog.Warn("could not publish a heartbeat", "agent", service.Metadata["agent"], "error", err)
	}
}

// isReply reports whether a client may have responses sent to a subject. Others would let a client write, by the permissions of
// this process, where it may not write itself.
func isReply(subject string) bool {
	first, _, more := strings.Cut(subject, ".")
	return more && (strings.HasPrefix(first, "_INBOX") || first == "_R_")
}

// take handles a prompt in its own goroutine.
func (s *server) take(agent string, r micro.Request) {
	if !isReply(r.Reply()) {
		slog.Warn("a prompt without an inbox is ignored", "subject", r.Subject(), "reply", fmt.Sprintf("%.80q", r.Reply()))
		return
	}
	p := &Prompt{Agent: agent, Data: r.Data(), conn: s.inbox.conn, request: r}
	select {
	case s.slots <- struct{}{}:
	default:
		p.Fail(429, "too many prompts run; try again later", nil)
		p.End()
		return
	}
	s.running.Go(func() { // ends with the handler
		defer func() { <-s.slots }()
		defer p.End()
		s.handle(p)
	})
}
