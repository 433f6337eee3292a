package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
)

// Prompt is a prompt of a client, or its answer to a question.
type Prompt struct {
	Text        string       `json:"prompt"`
	Session     string       `json:"session"` // the conversation: a thread
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	Filename string `json:"filename"`
	Content  string `json:"content"` // in standard base64, with padding
}

// The limits of an envelope.
const (
	maxAttachments = 32
	maxDepth       = 64
)

// DecodePrompt reads a prompt: an envelope if it begins with a brace, else plain text.
func DecodePrompt(data []byte) (Prompt, error) {
	var p Prompt
	switch {
	case len(data) == 0:
		return p, invalid("the prompt is empty")
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return p, invalid("the prompt must be UTF-8, without NUL")
	case !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")):
		return Prompt{Text: string(data)}, nil
	}
	return p, decodeEnvelope(data, &p)
}

func decodeEnvelope(data []byte, p *Prompt) error {
	if codec.NestedDeeper(data, maxDepth) {
		return invalid("the envelope is nested too deeply")
	}
	err := json.Unmarshal(data, p, json.WithUnmarshalers(codec.AtMost[attachment](maxAttachments, "")))
	if err != nil {
		return codec.Explain(err)
	}
	if p.Session != "" && !id.Valid(p.Session) {
		return invalid("session is %.80q; it must match ^[A-Za-z0-9_-]{1,64}$", p.Session)
	}
	if p.Text == "" {
		return invalid(`the envelope has no prompt; send {"prompt":"hi"}`)
	}
	return nil
}

// Request returns the request of a prompt.
func (p Prompt) Request() (event.AgentRequest, error) {
	content := event.InputContent{{Type: event.ContentText, Text: p.Text}}
	for i, a := range p.Attachments {
		part, err := a.part(fmt.Sprintf("attachments[%d]", i))
		if err != nil {
			return event.AgentRequest{}, err
		}
		content = append(content, part)
	}
	content, err := codec.CheckContent("the prompt", content)
	if err != nil {
		return event.AgentRequest{}, err
	}
	return event.AgentRequest{ThreadID: p.Session, Messages: []event.InputMessage{{Role: event.RoleUser, Content: content}}}, nil
}

// part returns the image or file. The name decides its type, or else the content.
func (a attachment) part(where string) (event.InputPart, error) {
	if a.Filename == "" || a.Filename != path.Base(a.Filename) || strings.Contains(a.Filename, "\\") || strings.Trim(a.Filename, ".") == "" {
		return event.InputPart{}, invalid("%s.filename is %.80q; send the name of a file without its folder", where, a.Filename)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(a.Content)
	if err != nil || len(data) == 0 || strings.ContainsAny(a.Content, "\r\n") {
		return event.InputPart{}, invalid("%s.content must be standard base64 with padding, and not empty", where)
	}
	mediaType, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(a.Filename)), ";")
	if mediaType == "" {
		mediaType, _, _ = strings.Cut(http.DetectContentType(data), ";")
	}
	kind := "file"
	if strings.HasPrefix(mediaType, "image/") {
		kind = "image"
	}
	return event.InputPart{Type: kind, Data: data, MediaType: mediaType, Name: a.Filename}, nil
}

// Answer returns the result that a text gives to an action; false if it is neither a yes nor a no to an approval.
func Answer(action event.Continuation, text string) (r event.ActionResult, ok bool) {
	r = event.ActionResult{ActionID: action.ActionID, Status: event.ActionSuccess}
	if action.Kind == event.ContinueInput {
		encoded, err := json.Marshal(text)
		r.Result = encoded
		return r, err == nil
	}
	switch strings.ToLower(strings.Trim(text, " \t\r\n.!")) {
	case "y", "yes", "ok", "approve", "approved", "allow":
		return r, true
	case "n", "no", "deny", "denied", "reject":
		r.Status = event.ActionDenied
		return r, true
	}
	return r, false
}

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}
