package tarko

import (
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// oneshot makes a session for one query; a retry means the session of the first attempt. It makes none where it has
// answered for the caller, or where the query is none.
func (s *Server) oneshot(x *protocol.Exchange) (made record.Session, q query, answered bool, err error) {
	body, err := x.Body()
	if err != nil {
		return made, q, false, err
	}
	defer x.WithTimeout()()
	var in struct {
		Query       jsontext.Value `json:"query"` // left to the dialect
		SessionName string         `json:"sessionName"`
		SessionTags []string       `json:"sessionTags"`
		Agent       string         `json:"agent"` // ours
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
	if refused, err := s.refuseSecond(x); refused || err != nil {
		return made, q, refused, err
	}
	if made, err = s.createSession(x, threadID, draft{Name: in.SessionName, Tags: in.SessionTags, Agent: in.Agent}); err != nil {
		return made, q, false, err
	}
	q, err = s.newQuery(made, body)
	return made, q, false, err
}

// postOneshot asks a session of its own and answers with what came of it.
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

// postOneshotStream asks a session of its own and streams what comes of it.
func (s *Server) postOneshotStream(x *protocol.Exchange) error {
	if _, err := wantsNested(x); err != nil {
		return err
	}
	made, q, answered, err := s.oneshot(x)
	if answered || err != nil {
		return err
	}
	text, err := json.Marshal(announcement{"session_created", made.ThreadID, millis(made.CreatedAt)})
	if err != nil {
		return err
	}
	return s.stream(x, q, text)
}
