package wire_test

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/natsagents/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestCodec(t *testing.T) {
	t.Parallel()
	protocoltest.Run(t, wire.Codec{}, update, protocoltest.Format{Name: "chunks"})
}

func TestDecodePrompt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]wire.Prompt{
		"hi":       {Text: "hi"},
		"[1]":      {Text: "[1]"},
		"\"a\"":    {Text: "\"a\""},
		" spaced ": {Text: " spaced "},
		"\n {\"prompt\":\"a\",\"session\":\"s-1\",\"future\":{}}": {Text: "a", Session: "s-1"},
	} {
		got, err := wire.DecodePrompt([]byte(text))
		if err != nil || got.Text != want.Text || got.Session != want.Session {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	decode := func(files string) (event.AgentRequest, error) {
		p, err := wire.DecodePrompt([]byte(`{"prompt":"a","attachments":[` + files + `]}`))
		if err != nil {
			return event.AgentRequest{}, err
		}
		return p.Request()
	}
	for file, want := range map[string][2]string{
		`{"filename":"a.txt","content":"YQ=="}`:                     {"file", "text/plain"},
		`{"filename":"a.png","content":"iVBORw0KGgoAAAANSUhEUg=="}`: {"image", "image/png"},
	} {
		r, err := decode(file)
		if err != nil || len(r.Messages[0].Content) != 2 {
			t.Errorf("%s: got %+v, %v", file, r, err)
			continue
		}
		if part := r.Messages[0].Content[1]; part.Type != want[0] || part.MediaType != want[1] || len(part.Data) == 0 {
			t.Errorf("%s: got %+v, want %v", file, part, want)
		}
	}
	for _, file := range []string{
		`{"filename":"a.txt","content":"YQ"}`, `{"filename":"a.txt","content":"_-=="}`, `{"filename":"a.txt","content":"Y\nQ=="}`,
		`{"filename":"a.txt","content":""}`, `{"filename":"","content":"YQ=="}`, `{"filename":"a/b","content":"YQ=="}`,
		`{"filename":"..","content":"YQ=="}`, `{"filename":"a\\b","content":"YQ=="}`, `7`,
	} {
		if _, err := decode(file); apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Errorf("%s: got %v, want invalid_message_format", file, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	approval := event.Continuation{ActionID: "a", Kind: event.ContinueApproval}
	for text, want := range map[string]event.ActionStatus{"Yes.": event.ActionSuccess, " approve\n": event.ActionSuccess, "NO!": event.ActionDenied, "maybe": "", "": ""} { //nolint:gocritic // white space belongs to the answer
		got, ok := wire.Answer(approval, text)
		if ok != (want != "") || ok && got.Status != want {
			t.Errorf("%q: got %+v, %v, want %q", text, got, ok, want)
		}
	}
	if got, ok := wire.Answer(event.Continuation{ActionID: "a", Kind: event.ContinueInput}, `say "x"`); !ok || string(got.Result) != `"say \"x\""` {
		t.Errorf("got %+v, %v", got, ok)
	}
}

func TestStatusOfEveryCode(t *testing.T) {
	t.Parallel()
	for _, code := range apierr.Codes() {
		switch status := wire.Status(code); status {
		case 400, 401, 403, 404, 409, 429, 500:
		default:
			t.Errorf("%s: got %d, which the protocol does not have", code, status)
		}
	}
}

func FuzzDecodePrompt(f *testing.F) {
	f.Add([]byte("hi"))
	f.Add([]byte(`{"prompt":"a","session":"s","attachments":[{"filename":"a.txt","content":"YQ=="}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := wire.DecodePrompt(data)
		if err == nil {
			_, err = p.Request()
		}
		if code := apierr.CodeOf(err); err != nil && code != apierr.InvalidMessageFormat && code != apierr.MessageTooLarge {
			t.Errorf("%q: got %v", data, err)
		}
	})
}
