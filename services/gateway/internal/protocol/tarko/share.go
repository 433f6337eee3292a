package tarko

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

//go:embed share.html
var shareHTML string

var sharePage = template.Must(template.New("share").Parse(shareHTML))

// shareConfig is the response of getShareConfig.
type shareConfig struct {
	HasShareProvider bool   `json:"hasShareProvider"`
	ShareProvider    string `json:"shareProvider"`
}

// getShareConfig reports whether pages of sessions can be uploaded to a provider.
func (s *Server) getShareConfig(x *protocol.Exchange) error {
	if s.provider == nil {
		return x.Reply(http.StatusOK, shareConfig{})
	}
	return x.Reply(http.StatusOK, shareConfig{true, s.provider.shown})
}

// shareReply is the response of postShare.
type shareReply struct {
	Success   bool   `json:"success"`
	SessionID string `json:"sessionId"`
	HTML      string `json:"html,omitempty"`
	URL       string `json:"url,omitempty"` // of the page at the provider
}

// postShare creates a page of a session that needs no server: the messages and tool calls, with their pictures, and the
// events as data. With upload it sends the page to the provider.
func (s *Server) postShare(x *protocol.Exchange) error {
	var in struct {
		SessionID string `json:"sessionId"`
		Upload    bool   `json:"upload"`
	}
	if err := read(x, &in); err != nil {
		return err
	}
	found, err := s.mustRead(x, x.Query().Get("sessionId"), in.SessionID)
	if err != nil {
		return err
	}
	if in.Upload && !x.Principal().May(auth.ScopeRun) { // an uploaded page can be read by everyone
		return apierr.New(apierr.AuthFailed, "The API key lacks the scope %q, which an upload needs; share without upload", auth.ScopeRun)
	}
	if in.Upload && s.provider == nil {
		return invalid("No share provider is configured; share without upload, and send the page yourself")
	}
	meta, err := s.metadata(x.Context(), found)
	if err != nil {
		return err
	}
	events, err := s.listEvents(x.Context(), found, selection{limit: maxEvents})
	if err != nil {
		return err
	}
	if events.HasMore {
		return apierr.New(apierr.MessageTooLarge, "The session has more than %d events or %d bytes, too many for one page", maxEvents, maxListed)
	}
	about := s.info(x, meta)
	if events.Events, err = s.inline(x.Context(), found, events.Events); err != nil {
		return err
	}
	html, err := s.render(about, events.Events)
	if err != nil {
		return err
	}
	if !in.Upload {
		return x.Reply(http.StatusOK, shareReply{Success: true, SessionID: about.ID, HTML: html})
	}
	at, err := s.provider.upload(x.Context(), about, firstPrompt(events.Events), html)
	if err != nil {
		return apierr.Wrap(err, apierr.Unavailable, "The share provider has not taken the page; try again, or share without upload")
	}
	return x.Reply(http.StatusOK, shareReply{Success: true, SessionID: about.ID, URL: at})
}

// firstPrompt returns the text of a session's first user message.
func firstPrompt(events []json.RawMessage) string {
	for _, one := range events {
		var t pageEvent
		if err := jsonv2.Unmarshal(one, &t); err == nil && t.Type == tarko.TypeUserMessage {
			return t.Text()
		}
	}
	return ""
}

// pageEvent has the fields of an event that the page shows.
type pageEvent struct {
	Type    tarko.Type      `json:"type"`
	Name    string          `json:"name"`    // of a tool
	Content json.RawMessage `json:"content"` // of a message or a result
	Args    json.RawMessage `json:"arguments"`
	Message string          `json:"message"` // of a notice
}

// Text returns the text of the event, or its JSON.
func (t pageEvent) Text() string {
	value := t.Content
	if t.Type == tarko.TypeToolCall {
		value = t.Args
	}
	var text string
	if jsonv2.Unmarshal(value, &text) == nil {
		return text
	}
	if len(value) == 0 {
		return t.Message
	}
	return string(value)
}

// Shown reports whether the page shows the event.
func (t pageEvent) Shown() bool {
	switch t.Type {
	case tarko.TypeUserMessage, tarko.TypeAssistantMessage, tarko.TypeToolCall, tarko.TypeToolResult, tarko.TypeFinalAnswer, tarko.TypeSystem:
		return t.Text() != ""
	default:
		return false
	}
}

// render creates the page: the user interface in replay mode or, without one, a plain page.
func (s *Server) render(about info, events []json.RawMessage) (string, error) {
	if s.page != nil {
		return s.replay(about, events)
	}
	all := make([]pageEvent, 0, len(events))
	for _, one := range events {
		var t pageEvent
		if err := jsonv2.Unmarshal(one, &t); err != nil {
			return "", fmt.Errorf("share session %s: %w", about.ID, err)
		}
		all = append(all, t)
	}
	data, err := embedded(map[string]any{"session": about, "events": events})
	if err != nil {
		return "", err
	}
	var page bytes.Buffer
	err = sharePage.Execute(&page, map[string]any{
		"Title": about.Metadata.Name, "Events": all, "Data": template.JS(data), //nolint:gosec // it is JSON without <, > and &
	})
	return page.String(), err
}

// replay returns the user interface with a script that contains the session, which it then reads in place of a server.
func (s *Server) replay(about info, events []json.RawMessage) (string, error) {
	script := []byte("window.AGENT_REPLAY_MODE=true;")
	for _, one := range []struct {
		name  string
		value any
	}{
		{"AGENT_SESSION_DATA", about}, {"AGENT_EVENT_STREAM", events}, {"AGENT_VERSION_INFO", s.build},
	} {
		data, err := embedded(one.value)
		if err != nil {
			return "", fmt.Errorf("share session %s: %w", about.ID, err)
		}
		script = fmt.Appendf(script, "window.%s=%s;", one.name, data)
	}
	return s.page.With(string(script)), nil
}

// embedded encodes a value as JSON that is safe within a script element of a page.
func embedded(value any) ([]byte, error) {
	return jsonv2.Marshal(value, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true), jsonv2.Deterministic(true))
}
