package tarko

import (
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	jsonv2 "github.com/go-json-experiment/json"
)

// oneshot creates a session for one query; a retry gets the session of the first attempt. It creates no session if it
// has already replied, or if the query is invalid.
func (s *Server) oneshot(x *protocol.Exchange) (made record.Session, q query, answered bool, err error) {
	body, err := x.Body()
	if err != nil {
		return made, q, false, err
	}
	defer x.WithTimeout()()
	var in struct {
		SessionName string   `json:"sessionName"`
		SessionTags []string `json:"sessionTags"`
		Agent       string   `json:"agent"` // an extension of Tarko's protocol
	}
	if len(body) == 0 {
		return made, q, false, invalid("Query is required")
	}
	if err := decode(body, &in); err != nil {
		return made, q, false, err
	}
	if _, err := s.encodings.query.Decode(body); err != nil {
		return made, q, false, err
	}
	threadID, err := x.NewThreadID()
	if err != nil {
		return made, q, false, err
	}
	if refused, err := s.checkExclusive(x); refused || err != nil {
		return made, q, refused, err
	}
	if made, err = s.createSession(x, threadID, draft{Name: in.SessionName, Tags: in.SessionTags, Agent: in.Agent}); err != nil {
		return made, q, false, err
	}
	q, err = s.newQuery(made, body)
	return made, q, false, err
}

// postOneshot runs a query in a new session and returns its outcome.
func (s *Server) postOneshot(x *protocol.Exchange) error {
	made, q, answered, err := s.oneshot(x)
	if answered || err != nil {
		return err
	}
	return s.collect(x, q, made.ThreadID)
}

// announcement is the first event of a oneshot's stream.
type announcement struct {
	Type      string `json:"type"`
	SessionID string `json:"sessionId"`
	Timestamp int64  `json:"timestamp"`
}

// postOneshotStream runs a query in a new session and streams its events.
func (s *Server) postOneshotStream(x *protocol.Exchange) error {
	if _, err := wantsNested(x); err != nil {
		return err
	}
	made, q, answered, err := s.oneshot(x)
	if answered || err != nil {
		return err
	}
	text, err := jsonv2.Marshal(announcement{"session_created", made.ThreadID, millis(made.CreatedAt)})
	if err != nil {
		return err
	}
	return s.stream(x, q, text)
}
