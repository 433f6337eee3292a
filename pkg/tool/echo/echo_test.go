package echo_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/echo"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
)

func TestEcho(t *testing.T) {
	t.Parallel()
	tooltest.Run(t, echo.New(), tooltest.Cases{
		Good: []string{`{}`, `{"text":"hi"}`, `{"text":"a b","delay":"10ms"}`, `{"bytes":0}`, `{"text":"é","bytes":5}`,
			`{"emit":{"type":"metric","data":{"n":1}}}`, `{"image":8}`},
		Bad: []string{
			`{"delay":"soon"}`, `{"delay":5}`, `{"delay":"-1s"}`, `{"delay":"11m"}`, `{"bytes":-1}`, `{"bytes":1e9}`, `{"fail":""}`, `{"image":1025}`,
			`{"fail":"as asked"}`, `{"emit":{}}`, `{"emit":{"type":"done"}}`, `{"emit":{"type":"x","data":[1]}}`,
		},
		Slow: `{"text":"a b c","delay":"5m"}`,
	})
}

func TestEchoTakesItsTimeAndPrintsItsWords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var printed []string
		call := tool.Call{Args: json.RawMessage(`{"text":"one two three","delay":"3s"}`), Progress: func(s string) { printed = append(printed, s) }}
		start := time.Now()
		result, err := echo.New().Call(t.Context(), call)
		if err != nil || result.Content != "one two three" {
			t.Fatalf("got %q, %v", result.Content, err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
		if got := strings.Join(printed, "|"); got != "one |two |three" {
			t.Errorf("printed %q", got)
		}
	})
}

func TestEchoFailsWithItsMessage(t *testing.T) {
	t.Parallel()
	call := tool.Call{Args: json.RawMessage(`{"text":"x","fail":"100% as asked"}`), Progress: func(string) {}}
	_, err := echo.New().Call(t.Context(), call)
	if f := apierr.From(err); f.Code != apierr.ToolError || f.Message != "100% as asked" {
		t.Errorf("got %v", err)
	}
}

func TestEchoGivesAPicture(t *testing.T) {
	t.Parallel()
	call := tool.Call{Args: json.RawMessage(`{"text":"x","image":8}`), Progress: func(string) {}}
	result, err := echo.New().Call(t.Context(), call)
	if err != nil || len(result.Media) != 1 {
		t.Fatalf("got %+v, %v", result, err)
	}
	if part, err := media.Check("the picture", result.Media[0]); err != nil || media.Type(part.Data) != "image/png" {
		t.Errorf("got %+v, %v", part, err)
	}
}

func TestEchoEmitsAnEvent(t *testing.T) {
	t.Parallel()
	call := tool.Call{Args: json.RawMessage(`{"text":"x","emit":{"type":"metric","data":{"n": 1}}}`), Progress: func(string) {}}
	result, err := echo.New().Call(t.Context(), call)
	if err != nil || result.Content != "x" || len(result.Events) != 1 || result.Events[0].Type != "metric" ||
		string(result.Events[0].Data) != `{"n":1}` {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestEchoGivesTheBytesAskedFor(t *testing.T) {
	t.Parallel()
	call := tool.Call{Args: json.RawMessage(`{"text":"é","bytes":300001}`), Progress: func(string) {}}
	result, err := echo.New().Call(t.Context(), call)
	if err != nil || len(result.Content) != 300001 || !utf8.ValidString(result.Content) {
		t.Errorf("got %d bytes, %v", len(result.Content), err)
	}
}
