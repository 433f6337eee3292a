package workload

import (
	"context"
	"net/http"
	"strings"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
)

// socket is a WebSocket that has joined one session.
type socket struct{ conn *websocket.Conn }

func (s *socket) close() { _ = s.conn.CloseNow() }

// dial opens a WebSocket and joins the session after the watcher's cursor.
func (w *watcher) dial(ctx context.Context, entry *oplog.Entry) (source, error) {
	url := "ws" + strings.TrimPrefix(entry.Gateway, "http") + "/ws?format=flat"
	if strings.Contains(w.route.format, "protocol") {
		url += "?format=protocol"
	}
	conn, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{ //nolint:bodyclose // it has none then
		HTTPHeader: http.Header{"Authorization": {"Bearer " + w.group.Keys[w.tenant]}},
	})
	if response != nil {
		entry.Status = response.StatusCode
	}
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1)
	after := w.cursor
	if after == "" {
		after = "0"
	}
	text, err := json.Marshal(map[string]string{"type": "join_session", "sessionId": w.thread, "after": after})
	if err == nil {
		err = conn.Write(ctx, websocket.MessageText, text)
	}
	if err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	return &socket{conn}, nil
}

// next reads a message. The answer to the join is a cursor without an event.
func (s *socket) next(ctx context.Context) (watchedEvent, error) {
	for {
		_, text, err := s.conn.Read(ctx)
		if err != nil {
			return watchedEvent{}, err
		}
		var m struct {
			Type   string `json:"type"`
			ID     string `json:"id"`
			Cursor string `json:"cursor"`
			Data   struct {
				Cursor string `json:"cursor"`
				Error  string `json:"error"`
			} `json:"data"`
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return watchedEvent{}, err
		}
		switch {
		case m.Type == "joined":
			return watchedEvent{cursor: m.Data.Cursor}, nil
		case m.Type == "left" || m.Type == "error" && m.ID == "":
			return watchedEvent{}, refused(text)
		default:
			return watchedEvent{text, m.Cursor}, nil
		}
	}
}
