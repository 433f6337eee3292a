package agentrunner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
)

// separators takes twice as many bytes in an event as in a record.
var separators = strings.Repeat("\u2028", 165_000)

// left writes the records of a request as a version did that measured the record alone.
func (s *stack) left(server bustest.Server, request event.AgentRequest) (record.Accepted, bus.LogID) {
	s.t.Helper()
	accepted, next := s.record(request)
	body, err := json.Marshal(accepted)
	if err != nil {
		s.t.Fatal(err)
	}
	server.Put(s.t, "agentbus.accept."+tenant+"."+accepted.RequestID, body)
	if s.newest, err = s.bus.AdvanceThread(s.t.Context(), tenant, next, s.newest.Sequence); err != nil {
		s.t.Fatal(err)
	}
	return accepted, bus.LogID{Tenant: tenant, RequestID: accepted.RequestID}
}

func TestARequestThatIsTooLargeForItsLogEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what    string
		request event.AgentRequest
	}{
		{"its messages", event.AgentRequest{Messages: []event.InputMessage{event.UserText(separators)}}},
		{"the model that it asks for", event.AgentRequest{
			Messages: []event.InputMessage{event.UserText("hi")}, Context: event.Context{Model: separators},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			server := bustest.NewServer(t)
			s := newStackOn(t, server.Connect(t, "test"))
			accepted, log := s.left(server, tt.request)
			if err := s.bus.Start(t.Context(), accepted, 0); err != nil {
				t.Fatal(err)
			}
			s.runner("r1")
			failed, events := end[event.Error](s, log)
			want := []event.Name{event.NameClaim, event.NameMetadata, event.NameError}
			if failed.Code != apierr.MessageTooLarge || failed.Retryable || !slices.Equal(names(events), want) {
				t.Errorf("got %+v and %v, want message_too_large after %v", failed, names(events), want)
			}
			end[event.Done](s, s.say("/say the thread is free"))
		})
	}
}

// TestARequestThatIsTooLargeForItsLogEndsAfterACrash has the runner that claimed it die before it has written the end.
func TestARequestThatIsTooLargeForItsLogEndsAfterACrash(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	s := newStackOn(t, server.Connect(t, "test"))
	accepted, log := s.left(server, event.AgentRequest{Messages: []event.InputMessage{event.UserText(separators)}})
	dead, _, err := s.bus.Claim(t.Context(), log, "dead", "test", accepted.Metadata("scripted", ""))
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	if err := s.bus.Start(t.Context(), accepted, 0); err != nil {
		t.Fatal(err)
	}
	s.runner("r1")
	if failed, _ := end[event.Error](s, log); failed.Code != apierr.MessageTooLarge {
		t.Errorf("got %+v, want message_too_large", failed)
	}
}

func TestTheReaperEndsARequestThatIsTooLargeForItsLog(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	s := newStackOn(t, server.Connect(t, "test"))
	s.sweep = 50 * time.Millisecond
	_, log := s.left(server, event.AgentRequest{Messages: []event.InputMessage{event.UserText(separators)}})
	if _, err := s.bus.Abort(t.Context(), tenant, record.Abort{RequestID: log.RequestID, By: "me"}); err != nil {
		t.Fatal(err)
	}
	s.history.lists(log, time.Now().Add(-time.Hour))
	s.runner("r1")
	s.until(log, event.IsTerminal)
}

// TestASteerThatIsTooLargeIsNotRead finds one that was accepted by a version that measured its record alone.
func TestASteerThatIsTooLargeIsNotRead(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	s := newStackOn(t, server.Connect(t, "test"))
	accepted, next := s.record(event.AgentRequest{Messages: []event.InputMessage{event.UserText("/say hello")}})
	s.append(accepted, next)
	steer, err := json.Marshal(record.Steer{
		RequestID: accepted.RequestID, SteerID: "steer_1", By: "me", Messages: []event.InputMessage{event.UserText(separators)},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Put(t, "agentbus.command."+tenant+"."+accepted.RequestID+".steer.steer_1", steer)
	if err := s.bus.Start(t.Context(), accepted, 0); err != nil {
		t.Fatal(err)
	}
	s.runner("r1")
	_, events := end[event.Done](s, bus.LogID{Tenant: tenant, RequestID: accepted.RequestID})
	if claims := find[event.Claim](events); len(claims) != 1 {
		t.Errorf("got %d claims, want 1: a steer ends no run", len(claims))
	}
}
