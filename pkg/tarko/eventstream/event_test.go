package eventstream_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

var example = eventstream.Event{
	ID: "a-1", Type: "plan_start", Time: time.UnixMilli(1748329959480).UTC(), SessionID: "s1",
	Data: json.RawMessage(`{"sessionId":"s1"}`),
}

func with(change func(*eventstream.Event)) eventstream.Event {
	e := example
	change(&e)
	return e
}

func TestAppend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		event        eventstream.Event
		flat, nested string // "" = refused
	}{
		{
			"the members of the type are on the level of the envelope, or in data", example,
			`{"id":"a-1","type":"plan_start","timestamp":1748329959480,"sessionId":"s1"}`,
			`{"id":"a-1","type":"plan_start","timestamp":1748329959480,"sessionId":"s1","data":{"sessionId":"s1"}}`,
		},
		{
			"what is not there is absent", eventstream.Event{Type: "x"},
			`{"type":"x"}`, `{"type":"x","data":{}}`,
		},
		{
			"the beginning of 1970 is a time", eventstream.Event{Type: "x", Time: time.UnixMilli(0)},
			`{"type":"x","timestamp":0}`, `{"type":"x","timestamp":0,"data":{}}`,
		},
		{
			"metadata is of the nested form alone",
			eventstream.Event{Type: "x", Meta: eventstream.Meta{Source: "runner", Version: "2.0", TraceID: "t"}},
			`{"type":"x"}`, `{"type":"x","data":{},"metadata":{"source":"runner","version":"2.0","traceId":"t"}}`,
		},
		{
			"it is one line, whatever is in it", eventstream.Event{Type: "x", Data: json.RawMessage("{\n \"a\": \"\u2028\"\n}")},
			`{"type":"x","a":"\u2028"}`, `{"type":"x","data":{"a":"\u2028"}}`,
		},
		{
			"data that is not an object has no flat form", eventstream.Event{Type: "x", Data: json.RawMessage(`[1]`)},
			"", `{"type":"x","data":[1]}`,
		},
		{
			"an id of the data's own has no flat form", with(func(e *eventstream.Event) { e.Data = json.RawMessage(`{"id":"call_1"}`) }),
			"", `{"id":"a-1","type":"plan_start","timestamp":1748329959480,"sessionId":"s1","data":{"id":"call_1"}}`,
		},
		{"an event without a type is refused", eventstream.Event{ID: "a-1"}, "", ""},
		{"data that is not JSON is refused", eventstream.Event{Type: "x", Data: json.RawMessage(`{"a"`)}, "", ""},
	}
	for _, tt := range tests {
		expect(t, tt.name+", flat", tt.event.AppendFlat, tt.flat)
		expect(t, tt.name+", nested", tt.event.AppendNested, tt.nested)
	}
}

// expect checks what is appended behind something else, which a refusal must leave as it was.
func expect(t *testing.T, name string, appendTo func([]byte) ([]byte, error), want string) {
	t.Helper()
	got, err := appendTo([]byte("before "))
	if string(got) != "before "+want || (err != nil) != (want == "") {
		t.Errorf("%s: got %s, %v", name, got, err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	flat, err := eventstream.DecodeFlat([]byte(`{"data":{"a":1},"sessionId":"s1","timestamp":1748329959480.7,"type":"x","id":"1"}`))
	want := eventstream.Event{
		ID: "1", Type: "x", Time: example.Time, SessionID: "s1", Data: json.RawMessage(`{"data":{"a":1},"sessionId":"s1"}`),
	}
	if err != nil || !reflect.DeepEqual(flat, want) {
		t.Errorf("flat: got %+v, %v", flat, err)
	}
	nested, err := eventstream.DecodeNested([]byte(`{"type":"x","sessionId":"s1","new":true,"data":"text","metadata":{"source":"m"}}`))
	want = eventstream.Event{Type: "x", SessionID: "s1", Data: json.RawMessage(`"text"`), Meta: eventstream.Meta{Source: "m"}}
	if err != nil || !reflect.DeepEqual(nested, want) {
		t.Errorf("nested: got %+v, %v", nested, err)
	}
	if v := nested.ProtocolVersion(); v != "1.0" {
		t.Errorf("an event without a version is of version %s", v)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"no type":                   `{"id":"1"}`,
		"a type that is not a text": `{"type":1}`,
		"no object":                 `["type"]`,
		"a member that comes twice": `{"type":"x","type":"y"}`,
		"a time far beyond the end": `{"type":"x","timestamp":1e300}`,
		"a time that is a text":     `{"type":"x","timestamp":"now"}`,
		"half of it":                `{"type":"x"`,
	}
	for name, line := range tests {
		if e, err := eventstream.DecodeFlat([]byte(line)); err == nil {
			t.Errorf("flat: %s gives %+v", name, e)
		}
		if e, err := eventstream.DecodeNested([]byte(line)); err == nil {
			t.Errorf("nested: %s gives %+v", name, e)
		}
	}
}

// What one of the forms can be read from is written again as it was understood.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"1","type":"x","timestamp":1748329959480,"sessionId":"s1","data":{"a":1},"metadata":{"source":"m"}}`))
	f.Add([]byte(`{"type":"x","sessionId":7,"a":"\ud800"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		again(t, line, eventstream.DecodeFlat, eventstream.Event.AppendFlat)
		again(t, line, eventstream.DecodeNested, eventstream.Event.AppendNested)
	})
}

func again(t *testing.T, line []byte, decode func([]byte) (eventstream.Event, error),
	appendTo func(eventstream.Event, []byte) ([]byte, error),
) {
	t.Helper()
	e, err := decode(line)
	if err != nil {
		return
	}
	first, err := appendTo(e, nil)
	if err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	e, err = decode(first)
	if err != nil {
		t.Fatalf("%s: %v", first, err)
	}
	if second, err := appendTo(e, nil); err != nil || !bytes.Equal(first, second) {
		t.Fatalf("%s, then %s, %v", first, second, err)
	}
}
