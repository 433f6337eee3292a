// Package permissions lists what each program may publish and subscribe to on NATS, and writes it as configuration of a NATS
// server. A program can do what its task needs and no more: a gateway that was taken over cannot write events, and an
// executor cannot accept requests.
package permissions

import (
	"cmp"
	"fmt"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
)

// Role is a program that connects to NATS. It is also the name under which the program connects, and so part of its inboxes.
type Role string

// The roles.
const (
	Gateway   Role = "gateway"
	Runner    Role = "agent-runner"
	Executor  Role = "tool-executor"
	History   Role = "history"
	Hub       Role = "hub"
	Keys      Role = "agentbus-keys"      // agentbus keys
	Client    Role = "agentbus-client"    // a program that prompts agents on the broker
	Provision Role = "agentbus-provision" // agentbus provision: the only one that creates, changes and deletes streams
)

// Roles lists every role.
func Roles() []Role { return []Role{Gateway, Runner, Executor, History, Hub, Keys, Client, Provision} }

// Allowed is what a role may do. All else is refused.
type Allowed struct {
	Publish   []string
	Subscribe []string
}

// Of returns what a role may do where subjects start with prefix ("" = the default).
func Of(role Role, prefix string) (Allowed, error) {
	prefix = cmp.Or(prefix, broker.DefaultPrefix)
	if err := broker.CheckToken(prefix); err != nil {
		return Allowed{}, fmt.Errorf("subject prefix: %w", err)
	}
	s := subjects{names: &broker.Conn{Prefix: prefix}}
	switch role {
	case Gateway:
		s.gateway()
	case Runner:
		s.runner()
	case Executor:
		s.executor()
	case History:
		s.history()
	case Hub:
		s.hub()
	case Keys:
		s.publish(s.bucket("KEYS"))
		s.read("KV_" + s.names.StreamName("KEYS"))
		s.subscribe(s.live("key"))
	case Client:
		return Allowed{
			// An answer to a question is published to the inbox of a gateway.
			Publish:   []string{"$SRV.PING.agents", "$SRV.INFO.agents", "agents.prompt.>", "agents.status.>", "_INBOX." + string(Gateway) + ".>"},
			Subscribe: []string{"agents.hb.>", inbox(role)},
		}, nil
	case Provision:
		return Allowed{Publish: []string{"$JS.API.>"}, Subscribe: []string{inbox(role)}}, nil
	default:
		return Allowed{}, fmt.Errorf("role %q does not exist; the roles are %v", role, Roles())
	}
	s.verify()
	s.subscribe(inbox(role))
	return s.Allowed, nil
}

func inbox(role Role) string { return "_INBOX." + string(role) + ".>" }

// subjects collects what one role may do.
type subjects struct {
	Allowed
	names *broker.Conn
}

func (s *subjects) publish(all ...string)   { s.Publish = append(s.Publish, all...) }
func (s *subjects) subscribe(all ...string) { s.Subscribe = append(s.Subscribe, all...) }

// verify allows what [bus.Bus.Verify] and [bus.Bus.Watch] ask.
func (s *subjects) verify() {
	s.publish("$JS.API.INFO")
	for _, stream := range s.streams() {
		s.publish("$JS.API.STREAM.INFO." + stream)
	}
	s.publish(
		"$JS.API.CONSUMER.INFO."+s.names.EventsStream()+"."+broker.HistoryConsumer,
		"$JS.API.CONSUMER.INFO."+s.names.EventsStream()+"."+broker.EndsConsumer,
		"$JS.API.CONSUMER.INFO."+s.names.DeliveriesStream()+"."+broker.DeliveryConsumer,
		"$JS.API.CONSUMER.INFO."+s.names.RequestsStream()+"."+broker.RunnerConsumer,
		"$JS.API.CONSUMER.INFO."+s.names.ToolsStream()+"."+broker.ExecutorConsumer,
	)
}

// streams lists all streams, those of buckets and of the object store included.
func (s *subjects) streams() []string {
	all := []string{
		s.names.EventsStream(), s.names.ResultsStream(), s.names.RequestsStream(), s.names.BacklogStream(), s.names.ToolsStream(),
		s.names.DeliveriesStream(), "OBJ_" + s.names.ObjectsBucket(),
	}
	for _, bucket := range []string{"KEYS", "TOOLSETS", "AGENTS", "PUSHES"} {
		all = append(all, "KV_"+s.names.StreamName(bucket))
	}
	return all
}

// read allows to read the messages of streams.
func (s *subjects) read(streams ...string) {
	for _, stream := range streams {
		s.publish("$JS.API.DIRECT.GET."+stream, "$JS.API.DIRECT.GET."+stream+".>", "$JS.API.STREAM.MSG.GET."+stream)
	}
}

// write allows to publish messages of kinds.
func (s *subjects) write(kinds ...string) {
	for _, kind := range kinds {
		s.publish(s.names.Wildcard(kind))
	}
}

// consume allows to pull from a consumer and to acknowledge what it delivers.
func (s *subjects) consume(stream, consumer string) {
	s.publish("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, "$JS.ACK."+stream+"."+consumer+".>")
}

// live names the subjects under which records of a kind are republished.
func (s *subjects) live(kind string) string {
	return s.names.Prefix + "." + broker.KindLive + "." + kind + ".>"
}

func (s *subjects) bucket(kind string) string { return "$KV." + s.names.StreamName(kind) + ".>" }

// ask allows requests to services, and to one instance of a service where the name has a wildcard.
func (s *subjects) ask(services ...string) {
	for _, service := range services {
		s.publish(s.names.Prefix + "." + broker.KindQuery + "." + service)
	}
}

// serve allows to respond to the requests to services.
func (s *subjects) serve(services ...string) {
	for _, service := range services {
		s.subscribe(s.names.Prefix + "." + broker.KindQuery + "." + service)
	}
	s.subscribe("$SRV.>") // a micro service answers to discovery
	s.respond(Gateway, Runner, Executor, Hub)
}

// respond allows to respond to requests of roles. It names their inboxes, whose tokens only the requester and the services that
// it asks have. The server's allow_responses would track the reply subject of each message that a consumer delivers, too.
func (s *subjects) respond(roles ...Role) {
	for _, role := range roles {
		s.publish(inbox(role))
	}
}

// queue allows to queue requests: the queue, and the backlog, from which each process that adds moves the oldest.
func (s *subjects) queue() {
	s.write(broker.KindRequest, broker.KindBacklog)
	s.read(s.names.RequestsStream(), s.names.BacklogStream())
	s.publish("$JS.API.STREAM.MSG.DELETE." + s.names.BacklogStream())
}

// objects allows to read large payloads, and to store them.
func (s *subjects) objects(store bool) {
	bucket := s.names.ObjectsBucket()
	stream := "OBJ_" + bucket
	s.read(stream)
	// A reader receives the chunks of an object from a consumer of its own, which ends with it.
	s.publish("$JS.API.CONSUMER.CREATE."+stream+".>", "$JS.API.CONSUMER.DELETE."+stream+".>",
		"$JS.API.CONSUMER.INFO."+stream+".>", "$JS.FC."+stream+".>")
	if store {
		// The chunks of an attempt that failed are removed.
		s.publish("$O."+bucket+".C.>", "$O."+bucket+".M.>", "$JS.API.STREAM.PURGE."+stream)
	}
}
