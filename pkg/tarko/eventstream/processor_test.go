package eventstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/go-json-experiment/json/jsontext"
)

// at is an event of a type, n milliseconds after a moment that all of them share.
func at(n int, kind, session string) eventstream.Event {
	return eventstream.Event{
		ID: fmt.Sprint("e", n), Type: kind, SessionID: session, Time: example.Time.Add(time.Duration(n) * time.Millisecond),
	}
}

// ids is what a list of events is compared by.
func ids(events []eventstream.Event) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.ID + " ")
	}
	return strings.TrimSpace(b.String())
}

func send(t testing.TB, p *eventstream.Processor, events ...eventstream.Event) {
	t.Helper()
	for _, e := range events {
		if err := p.Send(e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := eventstream.New(eventstream.Options{SessionID: "s1", Protocol: eventstream.Protocol{Version: "2.0"}})
		first, err := p.Create("custom_metric", map[string]any{"metric": "response_time", "value": 1250})
		if err != nil {
			t.Fatal(err)
		}
		want := eventstream.Event{
			ID: first.ID, Type: "custom_metric", Time: time.Now().UTC(), SessionID: "s1",
			Meta: eventstream.Meta{Version: "2.0"}, Data: json.RawMessage(`{"metric":"response_time","value":1250}`),
		}
		if !reflect.DeepEqual(first, want) || first.ID == "" {
			t.Errorf("got %+v, want %+v", first, want)
		}
		second, err := p.Emit("custom_metric", nil)
		if err != nil || second.ID == first.ID {
			t.Errorf("the second has the id %s, as the first; %v", second.ID, err)
		}
		if got := ids(p.Events(eventstream.Filter{})); got != second.ID {
			t.Errorf("kept are %s: what is created is not sent", got)
		}
	})
}

func TestSendRefuses(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{})
	tests := map[string]error{
		"an event without a type":     p.Send(eventstream.Event{ID: "1"}),
		"data that is not JSON":       p.Send(eventstream.Event{Type: "x", Data: json.RawMessage(`{`)}),
		"data that cannot be written": func() error { _, err := p.Emit("x", func() {}); return err }(),
		"a type that is missing":      func() error { _, err := p.Emit("", nil); return err }(),
	}
	for name, err := range tests {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if n := p.Stats().Sent; n != 0 {
		t.Errorf("%d events are kept", n)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{InitialEvents: []eventstream.Event{at(0, "user_message", "s1")}})
	send(t, p,
		at(1, "assistant_streaming_message", "s1"), at(2, "tool_call", "s1"), at(3, "tool_result", "s2"),
		at(4, "assistant_message", "s1"), at(5, "final_answer_streaming", "s2"), at(6, "tool_execution_delta", "s1"))
	when := func(n int) time.Time { return at(n, "", "").Time }
	tests := []struct {
		name   string
		filter eventstream.Filter
		want   string
	}{
		{"no filter means all, and those from before too", eventstream.Filter{}, "e0 e1 e2 e3 e4 e5 e6"},
		{"of one type", eventstream.Of("tool_call"), "e2"},
		{"of several types, in the order in which they came", eventstream.Of("assistant_message", "user_message"), "e0 e4"},
		{"of any type", eventstream.Of("*"), "e0 e1 e2 e3 e4 e5 e6"},
		{"of a type that was not sent", eventstream.Of("plan_start"), ""},
		{"by the beginning of the type", eventstream.Filter{Prefix: "tool_"}, "e2 e3 e6"},
		{"of a session", eventstream.Filter{SessionID: "s2"}, "e3 e5"},
		{"from a time on", eventstream.Filter{Since: when(5)}, "e5 e6"},
		{"until a time", eventstream.Filter{Until: when(2)}, "e0 e1"},
		{"between two times", eventstream.Filter{Since: when(2), Until: when(4)}, "e2 e3"},
		{"only what streams", eventstream.Filter{Streaming: true}, "e1 e5 e6"},
		{"all of it at once", eventstream.Filter{Prefix: "tool_", SessionID: "s1", Since: when(3), Streaming: true}, "e6"},
	}
	for _, tt := range tests {
		if got := ids(p.Events(tt.filter)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	for n, want := range map[int]string{-1: "", 0: "", 2: "e5 e6", 100: "e0 e1 e2 e3 e4 e5 e6"} {
		if got := ids(p.Last(n, eventstream.Filter{})); got != want {
			t.Errorf("the last %d: got %q, want %q", n, got, want)
		}
	}
}

func TestOldEventsAreForgotten(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		options eventstream.Options
		sent    int
		want    int
	}{
		{"beyond a thousand, when nothing else is said", eventstream.Options{}, 1005, 1000},
		{"beyond the maximum", eventstream.Options{MaxEvents: 3}, 10, 3},
		{"never, when they are not to be", eventstream.Options{MaxEvents: 3, NoTrim: true}, 10, 10},
		{"also those from before", eventstream.Options{MaxEvents: 2, InitialEvents: make([]eventstream.Event, 5)}, 0, 2},
	}
	for _, tt := range tests {
		p := eventstream.New(tt.options)
		for n := range tt.sent {
			send(t, p, at(n, "x", ""))
		}
		kept := p.Events(eventstream.Filter{})
		if len(kept) != tt.want || tt.sent > 0 && kept[tt.want-1].ID != at(tt.sent-1, "x", "").ID {
			t.Errorf("%s: %d events are kept, want the newest %d", tt.name, len(kept), tt.want)
		}
	}
	p := eventstream.New(eventstream.Options{NoTrim: true})
	send(t, p, at(0, "x", ""), at(1, "x", ""), at(2, "x", ""))
	before := p.Events(eventstream.Filter{})
	p.Trim(1)
	send(t, p, at(3, "x", ""))
	if got := ids(p.Events(eventstream.Filter{})); got != "e2 e3" || ids(before) != "e0 e1 e2" {
		t.Errorf("after Trim(1): %s; what was read before is %s", got, ids(before))
	}
}

// What a program trims it wants the memory of.
func TestTrimLetsGo(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{NoTrim: true})
	gone := make(chan struct{})
	func() {
		data := new([1 << 20]byte)
		copy(data[:], `{}`)
		runtime.AddCleanup(data, func(gone chan struct{}) { close(gone) }, gone)
		send(t, p, eventstream.Event{ID: "e0", Type: "x", Data: data[:2]}, at(1, "x", ""))
	}()
	p.Trim(1)
	runtime.GC()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("a trimmed event is still in memory")
	}
	if got := ids(p.Events(eventstream.Filter{})); got != "e1" {
		t.Errorf("kept are %s", got)
	}
}

func TestLatestToolResults(t *testing.T) {
	t.Parallel()
	result := func(session, id string) eventstream.Event {
		return eventstream.Event{
			Type: "tool_result", SessionID: session,
			Data: json.RawMessage(`{"toolCallId":"` + id + `","name":"search","content":{"hits":1},"elapsedMs":3}`),
		}
	}
	spoken := eventstream.Event{Type: "assistant_message", SessionID: "s1"}
	failed := eventstream.Event{Type: "tool_result", Data: json.RawMessage(`{"toolCallId":"c9","name":"search","content":"","error":"no net"}`)}
	broken := eventstream.Event{Type: "tool_result", Data: json.RawMessage(`"?"`)}
	tests := []struct {
		name    string
		session string
		events  []eventstream.Event
		want    string
	}{
		{"none without a message of the assistant", "", []eventstream.Event{result("s1", "c1")}, ""},
		{"none, when nothing came since", "", []eventstream.Event{spoken, result("s1", "c1"), spoken}, ""},
		{"those since the assistant spoke last", "", []eventstream.Event{spoken, result("s1", "c1"), spoken, result("s1", "c2"), result("s1", "c3")}, "c2 c3"},
		{"those of the session", "s1", []eventstream.Event{spoken, result("s2", "c1"), result("s1", "c2")}, "c2"},
		{"none of a session without a message of the assistant", "s2", []eventstream.Event{spoken, result("s2", "c1")}, ""},
		{"what failed says so", "", []eventstream.Event{spoken, failed}, "c9:no net"},
		{"what is not a result is left out", "", []eventstream.Event{spoken, broken, result("s1", "c1")}, "c1"},
	}
	for _, tt := range tests {
		p := eventstream.New(eventstream.Options{InitialEvents: tt.events})
		var got []string
		for _, r := range p.LatestToolResults(tt.session) {
			if r.Error != "" {
				r.ToolCallID += ":" + r.Error
			} else if r.Name != "search" || string(r.Content) != `{"hits":1}` {
				t.Errorf("%s: got %+v", tt.name, r)
			}
			got = append(got, r.ToolCallID)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestMiddlewareRunsBeforeSubscribers(t *testing.T) {
	t.Parallel()
	var seen []string
	p := eventstream.New(eventstream.Options{Middleware: []func(eventstream.Event) (eventstream.Event, bool){
		func(e eventstream.Event) (eventstream.Event, bool) {
			seen = append(seen, e.ID)
			e.Meta.Source = "first"
			return e, e.Type != "secret"
		},
		func(e eventstream.Event) (eventstream.Event, bool) {
			e.Meta.Source += ", second"
			return e, true
		},
	}})
	send(t, p, at(0, "x", ""), at(1, "secret", ""))
	kept := p.Events(eventstream.Filter{})
	if len(kept) != 1 || kept[0].Meta.Source != "first, second" || !slices.Equal(seen, []string{"e0", "e1"}) {
		t.Errorf("kept %+v; seen %v", kept, seen)
	}
	if n := p.Stats().Refused; n != 1 {
		t.Errorf("%d events were dropped", n)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{MaxEvents: 2})
	subscription := p.On("a", func(eventstream.Event) {})
	send(t, p, at(0, "a", ""), at(1, "b", ""), at(2, "a", ""))
	drain(t, p)
	want := eventstream.Stats{
		Sent: 3, Trimmed: 1, Kept: 2, ByType: map[string]uint64{"a": 2, "b": 1},
		Subscribers: []eventstream.SubscriberStats{{Filter: eventstream.Of("a"), Delivered: 2}},
	}
	if got := p.Stats(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	subscription.Stop()
	if got := p.Stats().Subscribers; got != nil {
		t.Errorf("who has left is counted: %+v", got)
	}
}

func TestStatsAreBounded(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{})
	for n := range 3000 {
		send(t, p, at(n, fmt.Sprint("type", n), ""))
	}
	if s := p.Stats(); len(s.ByType) > 1001 || s.Sent != 3000 || s.ByType["*"] != 2000 {
		t.Errorf("%d types are counted; %d events, %d of other types", len(s.ByType), s.Sent, s.ByType["*"])
	}
}

func TestExportLeavesNothingOut(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{InitialEvents: []eventstream.Event{
		{ID: "1", Type: "fits", Data: json.RawMessage(`{"a":1}`)},
		{ID: "2", Type: "has_an_id", Data: json.RawMessage(`{"id":7}`)},
		{ID: "3", Type: "is_a_number", Data: json.RawMessage(`7`)},
		{ID: "4", Type: "is_bare"},
	}})
	var text strings.Builder
	if err := p.Export(&text, eventstream.Flat, eventstream.Filter{}); err != nil {
		t.Fatal(err)
	}
	events, err := eventstream.Import(strings.NewReader(text.String()), eventstream.Flat)
	if err != nil || len(events) != 4 {
		t.Fatalf("got %d events of %s, %v", len(events), &text, err)
	}
	for i, want := range []string{`{"a":1}`, `{"data":{"id":7}}`, `{"data":7}`, `{}`} {
		got := events[i].Data
		if len(got) == 0 {
			got = json.RawMessage("{}")
		}
		if err := (*jsontext.Value)(&got).Compact(); err != nil || string(got) != want {
			t.Errorf("event %s has %s, %v, want %s", events[i].ID, got, err, want)
		}
	}
}

func TestExportIsReadAgain(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{InitialEvents: []eventstream.Event{example, at(1, "x", "s1")}})
	for _, form := range []eventstream.Form{eventstream.Flat, eventstream.Nested} {
		var first, second bytes.Buffer
		if err := p.Export(&first, form, eventstream.Filter{}); err != nil {
			t.Fatal(err)
		}
		events, err := eventstream.Import(&first, form)
		if err != nil || len(events) != 2 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		again := eventstream.New(eventstream.Options{InitialEvents: events})
		if err := errors.Join(p.Export(&first, form, eventstream.Filter{}), again.Export(&second, form, eventstream.Filter{})); err != nil {
			t.Fatal(err)
		}
		if first.String() != second.String() {
			t.Errorf("first %s\nthen %s", &first, &second)
		}
	}
	var none bytes.Buffer
	if err := p.Export(&none, eventstream.Flat, eventstream.Of("nothing")); err != nil || none.String() != "[]" {
		t.Errorf("nothing is exported as %q, %v", &none, err)
	}
	for name, text := range map[string]string{"no list": `{}`, "no event": `[{"id":"1"}]`, "half of it": `[{"type":"x"}`} {
		if _, err := eventstream.Import(strings.NewReader(text), eventstream.Flat); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// drain waits for all handlers.
func drain(t testing.TB, p *eventstream.Processor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}
