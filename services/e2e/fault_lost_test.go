package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/permissions"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// services are what an orchestrator starts again when it ends.
var services = []string{"history", "tool-executor", "agent-runner", "gateway"}

// events is the stream of events, as an operator sees it.
func (l lab) events(t *testing.T) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	access := l.NATSAccess(permissions.Provision)
	nkey, err := nats.NkeyOptionFromSeed(access.NKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(l.NATS, nkey, nats.RootCAs(access.CAFile), nats.ClientCert(access.CertFile, access.KeyFile),
		nats.CustomInboxPrefix("_INBOX."+string(permissions.Provision)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "AGENTBUS_EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	return js, stream
}

// begunAgain waits until each service has noticed that what it knew of the stream is worthless, and starts it again.
func (l lab) begunAgain(t *testing.T) {
	t.Helper()
	for _, name := range services {
		for _, p := range l.Processes(name) {
			if !p.Wait(40 * time.Second) {
				t.Fatalf("%s has not noticed that the stream is another one", name)
			}
		}
	}
	if err := l.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range services {
		for _, p := range l.Processes(name) {
			start(t, p)
		}
	}
}

func TestALostStreamIsMadeAnewAndItsRequestsBeginAgain(t *testing.T) {
	l := newLab(t, setup{database: database(t), env: []string{"GRACE=5s"}})
	before := l.post(t, 0, prompt("/say before")).end(t, time.Minute)
	l.remembered(t, before)
	runs := l.post(t, 0, long)
	runs.until(t, 200)
	js, _ := l.events(t)
	if err := js.DeleteStream(t.Context(), "AGENTBUS_EVENTS"); err != nil {
		t.Fatal(err)
	}
	first, err := runs.cut(t, time.Minute)
	if err == nil {
		t.Error("a reader of a lost log saw a clean end")
	}
	l.begunAgain(t)

	again, err := l.persist(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if d := l.finished(t, again); again.RequestID != first.RequestID || d.FinishReason != event.FinishStop {
		t.Errorf("request %s ended as %s with %s", first.RequestID, again.RequestID, d.FinishReason)
	}
	if past := l.resume(t, 0, before.RequestID, "").end(t, time.Minute); !slices.Equal(past.Lines, before.Lines) {
		t.Errorf("history holds %d events of a request that had ended, want %d", len(past.Lines), len(before.Lines))
	}
	next := l.post(t, 0, requestBody(event.AgentRequest{
		ThreadID: before.ThreadID, Messages: []event.InputMessage{event.UserText("/say next")},
	})).end(t, time.Minute)
	l.remembered(t, again, next)
}

func TestARestoredStreamIsANewIncarnation(t *testing.T) {
	l := newLab(t, setup{database: database(t), env: []string{"GRACE=5s"}})
	nats := l.Processes("nats")[0]
	kept := l.post(t, 0, prompt("/say kept")).end(t, time.Minute)
	l.remembered(t, kept)
	nats.Stop()
	backup := filepath.Join(t.TempDir(), "nats")
	if err := os.CopyFS(backup, os.DirFS(l.NATSDir())); err != nil {
		t.Fatal(err)
	}
	start(t, nats)

	lost := l.post(t, 0, prompt("/say lost")).end(t, time.Minute)
	next := l.post(t, 0, requestBody(event.AgentRequest{
		ThreadID: kept.ThreadID, Messages: []event.InputMessage{event.UserText("/say next")},
	})).end(t, time.Minute)
	l.remembered(t, lost, next)
	nats.Kill()
	if err := os.RemoveAll(l.NATSDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(l.NATSDir(), os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	start(t, nats)
	js, stream := l.events(t)
	config := stream.CachedInfo().Config
	config.Metadata["agentbus.incarnation"] = "restored1"
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	l.begunAgain(t)

	for _, old := range []transcript{kept, lost, next} {
		if now := l.resume(t, 0, old.RequestID, "").end(t, time.Minute); !slices.Equal(now.Lines, old.Lines) {
			t.Errorf("request %s has %d events, had %d", old.RequestID, len(now.Lines), len(old.Lines))
		}
	}
	for _, threadID := range []string{kept.ThreadID, lost.ThreadID} {
		after := l.post(t, 0, requestBody(event.AgentRequest{
			ThreadID: threadID, Messages: []event.InputMessage{event.UserText("/say after")},
		})).end(t, time.Minute)
		l.finished(t, after)
		l.remembered(t, after)
	}
}
