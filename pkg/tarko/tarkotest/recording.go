// Package tarkotest has recordings of Tarko's agents, for tests that compare the projection with Tarko's events.
package tarkotest

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	jsonv2 "github.com/go-json-experiment/json"
)

//go:embed recordings
var recordings embed.FS

// The recordings. Planner is of an older version of Tarko, whose model writes its calls as JSON into its text.
const (
	Planner = "planner-basic"
	Weather = "streaming-tool-calls"
)

// Recording is one run.
type Recording struct {
	Events []eventstream.Event // the events that Tarko emitted
	Turns  []Turn
}

// Turn is one turn of the model, with the results of its calls.
type Turn struct {
	Chunks [][]byte // of chat completions, each one JSON text
	Calls  []Call
}

// Call is a tool call with its result.
type Call struct {
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Result json.RawMessage `json:"result"`
}

// Open reads a recording.
func Open(t *testing.T, name string) Recording {
	t.Helper()
	var r Recording
	var events []json.RawMessage
	decode(t, name+"/events.json", &events)
	for _, text := range events {
		e, err := eventstream.DecodeFlat(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.Events = append(r.Events, e)
	}
	for n := 1; ; n++ {
		text, err := recordings.ReadFile(fmt.Sprintf("recordings/%s/turn-%d.jsonl", name, n))
		if err != nil {
			return r
		}
		turn := Turn{Chunks: bytes.Split(bytes.TrimSpace(text), []byte("\n"))}
		if file := fmt.Sprintf("%s/calls-%d.json", name, n); exists(file) {
			decode(t, file, &turn.Calls)
		}
		r.Turns = append(r.Turns, turn)
	}
}

func exists(file string) bool {
	_, err := recordings.ReadFile("recordings/" + file)
	return err == nil
}

func decode(t *testing.T, file string, value any) {
	t.Helper()
	text, err := recordings.ReadFile("recordings/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := jsonv2.Unmarshal(text, value); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// Text concatenates the text of the turn.
func (turn Turn) Text() string {
	var text strings.Builder
	for _, chunk := range turn.Chunks {
		var c struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := jsonv2.Unmarshal(chunk, &c); err == nil && len(c.Choices) > 0 {
			text.WriteString(c.Choices[0].Delta.Content)
		}
	}
	return text.String()
}
