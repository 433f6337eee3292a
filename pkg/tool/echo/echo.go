// Package echo is a built-in tool for tests and demonstrations: it returns its argument, and can be slow, long or never
// end.
package echo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Name is the tool's name.
const Name = "echo"

const (
	maxDelay = 10 * time.Minute
	maxWords = 1000 // steps of progress
)

const schema = `{
	"type": "object",
	"properties": {
		"text": {"type": "string", "description": "What to give back."},
		"delay": {"type": "string", "description": "How long to take, such as 200ms or 3s; at most 10m."},
		"fail": {"type": "string", "minLength": 1, "description": "Fail with this message."},
		"bytes": {"type": "integer", "minimum": 0, "maximum": 4194304, "description": "Repeat the text up to this length."},
		"image": {"type": "integer", "minimum": 0, "maximum": 1024, "description": "Give a picture of so many pixels each way."},
		"emit": {
			"type": "object",
			"description": "Emit this event.",
			"properties": {"type": {"type": "string", "minLength": 1}, "data": {"type": "object"}},
			"required": ["type"],
			"additionalProperties": false
		}
	},
	"additionalProperties": false
}`

type args struct {
	Text  string `json:"text,omitzero"`
	Delay string `json:"delay,omitzero"`
	Fail  string `json:"fail,omitzero"`
	Bytes int    `json:"bytes,omitzero"`
	Image int    `json:"image,omitzero"`
	Emit  *emit  `json:"emit,omitzero"`
}

type emit struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data,omitzero"`
}

// New returns the tool.
func New() tool.Tool {
	spec := tool.Spec{
		Name:        Name,
		Description: "Gives back its text, after a delay if asked. For tests.",
		Schema:      json.RawMessage(schema),
		Effect:      tool.EffectNone,
		Approval:    tool.ApprovalNever,
		Timeout:     maxDelay + 10*time.Second,
		MaxOutput:   8 << 20,
	}
	return tool.Func(spec, run)
}

func run(ctx context.Context, in args, call tool.Call) (tool.Result, error) {
	delay, err := parseDelay(in.Delay)
	if err != nil {
		return tool.Result{}, err
	}
	if err := speak(ctx, in.Text, delay, call.Progress); err != nil {
		return tool.Result{}, err
	}
	if in.Fail != "" {
		return tool.Result{}, apierr.New(apierr.ToolError, "%s", in.Fail)
	}
	result := tool.Result{Content: in.Text}
	if in.Bytes > 0 {
		result.Content, result.Summary = repeat(in.Text, in.Bytes), fmt.Sprintf("%d bytes", in.Bytes)
	}
	if in.Image > 0 {
		part, err := picture(in.Image)
		if err != nil {
			return tool.Result{}, err
		}
		result.Media = []event.InputPart{part}
	}
	if in.Emit == nil {
		return result, nil
	}
	custom, err := event.NewCustom(in.Emit.Type, in.Emit.Data)
	if err != nil {
		return tool.Result{}, apierr.New(apierr.ToolError, "wrong arguments for echo: %v", err)
	}
	result.Events = []event.Custom{custom}
	return result, nil
}

func parseDelay(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	delay, err := time.ParseDuration(text)
	if err != nil || delay < 0 || delay > maxDelay {
		return 0, apierr.New(apierr.ToolError,
			"wrong arguments for echo: \"delay\" is %.20q; expected a duration such as 200ms or 3s, at most 10m", text)
	}
	return delay, nil
}

// speak prints the text word by word, spread over the delay.
func speak(ctx context.Context, text string, delay time.Duration, progress func(string)) error {
	words := strings.SplitAfterN(text, " ", maxWords)
	pace := delay / time.Duration(len(words))
	for _, word := range words {
		if word != "" {
			progress(word)
		}
		if err := wait(ctx, pace); err != nil {
			return err
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// repeat returns exactly n bytes of valid UTF-8 made of text.
func repeat(text string, n int) string {
	if text == "" {
		text = "."
	}
	full := strings.Repeat(text, n/len(text)+1)
	whole := strings.ToValidUTF8(full[:n], "")
	return whole + strings.Repeat(".", n-len(whole))
}
