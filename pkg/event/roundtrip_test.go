package event_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"pgregory.net/rapid"
)

// bodyType is the Go type of a known event's body.
func bodyType(t *testing.T, name event.Name) reflect.Type {
	t.Helper()
	e, err := event.Decode([]byte(`{"event":"` + string(name) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	return reflect.TypeOf(e.Body)
}

// draw fills v with anything that its type can hold and JSON can carry. optional values may stay zero.
func draw(t *rapid.T, v reflect.Value, label string, optional bool) {
	if optional && rapid.Bool().Draw(t, label+" is absent") {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		nanos := rapid.Int64Range(1, 4e18).Draw(t, label)
		v.Set(reflect.ValueOf(time.Unix(0, nanos).UTC()))
		return
	case json.RawMessage:
		v.SetBytes([]byte(rapid.SampledFrom([]string{`{}`, `{"a":[1,2.5,"x"]}`, `"text"`, `0`, `[]`, `true`}).Draw(t, label)))
		return
	case event.InputContent:
		v.Set(reflect.ValueOf(drawContent(t, label)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawField(t, v.Type().Field(i), v.Field(i), label)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		draw(t, v.Elem(), label, false)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(1, 3).Draw(t, label+" length"), 3))
		for i := range v.Len() {
			draw(t, v.Index(i), label, false)
		}
	case reflect.String:
		v.SetString(rapid.StringN(1, 20, -1).Draw(t, label))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, label))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, label)))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, label))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(0, 1e9).Draw(t, label))
	default:
		t.Fatalf("no rule for %s", v.Type())
	}
}

func drawField(t *rapid.T, field reflect.StructField, v reflect.Value, label string) {
	tag := field.Tag.Get("json")
	if strings.HasSuffix(tag, ",embed") {
		if rapid.Bool().Draw(t, label+" has more members") {
			v.Set(reflect.ValueOf(event.NewMembers(json.RawMessage(`{"future":{"n":1},"Later":"é"}`))))
		}
		return
	}
	draw(t, v, label+"."+field.Name, strings.Contains(tag, ",omit"))
}

func drawContent(t *rapid.T, label string) event.InputContent {
	content := make(event.InputContent, rapid.IntRange(1, 3).Draw(t, label+" parts"))
	for i := range content {
		draw(t, reflect.ValueOf(&content[i]).Elem(), label, false)
		content[i].Type = rapid.SampledFrom([]string{"text", "image", "file", "later"}).Draw(t, label+" type")
	}
	return content
}

func TestEveryBodySurvivesARoundTrip(t *testing.T) {
	t.Parallel()
	for _, name := range event.Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			typ := bodyType(t, name)
			rapid.Check(t, func(t *rapid.T) {
				body := reflect.New(typ).Elem()
				draw(t, body, string(name), false)
				want := event.Event{
					ID: event.NewCursor("k3v9", rapid.Uint64().Draw(t, "n")), RequestID: rapid.String().Draw(t, "requestId"),
					Time: time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "time")).UTC(), Body: body.Interface().(event.Body),
				}
				line, err := event.Encode(want)
				if err != nil {
					t.Fatal(err)
				}
				got, err := event.Decode(line)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%s\ngot  %+v\nwant %+v", line, got, want)
				}
			})
		})
	}
}

func TestLinesAreSafeInOneLineAnywhere(t *testing.T) {
	t.Parallel()
	hostile := "a\nb\r\n\r\nevent: done\ndata: {}\x00\u2028\u2029\u0085</script>\x1b[31m"
	bodies := []event.Body{
		event.Text{Block: event.Block{BlockID: hostile, Stage: event.StageDelta}, Delta: hostile},
		event.ToolCall{Args: json.RawMessage("{\n\t\"a\": \"x\u2028y\"\r\n}")},
		event.Custom{Type: hostile, Data: json.RawMessage("[1,\n2]"), Extra: event.NewMembers(json.RawMessage("{\"k\":\n\"\u2029\"}"))},
		event.Unknown{Event: event.Name("a\nb\u2028"), Rest: event.NewMembers(json.RawMessage("{\n\"x\":\"\u2028\"}"))},
	}
	for _, body := range bodies {
		want := event.Event{ID: event.Cursor(hostile), RequestID: hostile, Time: at, Body: body}
		line, err := event.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(line, "\n\r\x00\x1b\u2028\u2029") {
			t.Errorf("%T: a break is left in %q", body, line)
		}
		got, err := event.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if got.RequestID != hostile || got.ID != want.ID || got.Body.Name() != body.Name() {
			t.Errorf("%T: the text changed on its way: %q", body, line)
		}
	}
}

func TestEncodeWritesWhatS2Shows(t *testing.T) {
	t.Parallel()
	zero := 0
	tests := []struct {
		name string
		in   event.Event
		want string
	}{
		{
			"metadata",
			event.Event{RequestID: "req-1", Time: at, Body: event.Metadata{ThreadID: "th-1", AgentID: "agent"}},
			`{"event":"metadata","requestId":"req-1","timestamp":"2026-03-14T09:26:53.589793Z","threadId":"th-1","agentId":"agent"}`,
		},
		{
			"the first block has an index though it is 0",
			event.Event{RequestID: "req-1", Time: at, Body: event.Text{Block: event.Block{
				MessageID: "msg-1", BlockID: "b0", Stage: event.StageStart, BlockIndex: &zero,
			}}},
			`{"event":"text","requestId":"req-1","timestamp":"2026-03-14T09:26:53.589793Z",` +
				`"messageId":"msg-1","blockId":"b0","stage":"start","blockIndex":0}`,
		},
		{
			"the first delta has an index though it is 0",
			event.Event{RequestID: "req-1", Time: at, Body: event.Text{
				Block: event.Block{MessageID: "msg-1", BlockID: "b0", Stage: event.StageDelta, DeltaIndex: &zero}, Delta: "Hello",
			}},
			`{"event":"text","requestId":"req-1","timestamp":"2026-03-14T09:26:53.589793Z",` +
				`"messageId":"msg-1","blockId":"b0","stage":"delta","deltaIndex":0,"delta":"Hello"}`,
		},
		{
			"done says what it used and held, though it is nothing",
			event.Event{ID: "k-1", RequestID: "req-1", Time: at, Body: event.Done{MessageID: "msg-1", ThreadID: "th-1", FinishReason: event.FinishStop}},
			`{"event":"done","id":"k-1","requestId":"req-1","timestamp":"2026-03-14T09:26:53.589793Z",` +
				`"messageId":"msg-1","threadId":"th-1","content":[],"usage":{"inputTokens":0,"outputTokens":0},"finishReason":"stop"}`,
		},
		{
			"an error is not retryable unless it says so",
			event.Event{Time: at, Body: event.Error{Code: "auth_failed", Message: "no key"}},
			`{"event":"error","requestId":"","timestamp":"2026-03-14T09:26:53.589793Z","code":"auth_failed","message":"no key","retryable":false}`,
		},
		{
			"a body without members",
			event.Event{RequestID: "req-1", Time: at, Body: event.Aborted{}},
			`{"event":"aborted","requestId":"req-1","timestamp":"2026-03-14T09:26:53.589793Z"}`,
		},
		{
			"a time of another zone is written in UTC, and a whole second has six digits",
			event.Event{RequestID: "r", Time: time.Date(2026, 3, 14, 10, 26, 53, 0, time.FixedZone("CET", 3600)), Body: event.Aborted{}},
			`{"event":"aborted","requestId":"r","timestamp":"2026-03-14T09:26:53.000000Z"}`,
		},
	}
	for _, tt := range tests {
		if got, err := event.Encode(tt.in); err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v\nwant %s", tt.name, got, err, tt.want)
		}
	}
}

func TestEncodeRefusesInvalidJSON(t *testing.T) {
	t.Parallel()
	tests := map[string]event.Body{
		"arguments cut off":      event.ToolCall{Args: json.RawMessage(`{"a":`)},
		"data with a name twice": event.Custom{Type: "x", Data: json.RawMessage(`{"a":1,"a":2}`)},
		"text that is not UTF-8": event.Text{Delta: "\xff"},
		"members that are a list": event.Text{
			Block: event.Block{BlockID: "b"}, Extra: event.NewMembers(json.RawMessage(`[1]`)),
		},
	}
	for name, body := range tests {
		if line, err := event.Encode(event.Event{Body: body}); err == nil {
			t.Errorf("%s: encoded as %s", name, line)
		}
	}
}
