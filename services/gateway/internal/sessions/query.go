package sessions

import (
	"context"
	"net/http"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/dialect"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/go-json-experiment/json/jsontext"
)

// question is a query that was understood: what is asked, and whom.
type question struct {
	threadID string
	agentID  string
	request  event.AgentRequest
	body     []byte // a retry brings the same
}

// question reads the query of a session.
func (s *Sessions) question(c *api.Call) (question, error) {
	body, err := c.Body()
	if err != nil {
		return question{}, err
	}
	defer c.Hurry()()
	var named struct {
		SessionID string         `json:"sessionId"`
		Query     jsontext.Value `json:"query"` // left to the dialect, once it is known that the session is there
	}
	if len(body) > 0 {
		if err := decode(body, &named); err != nil {
			return question{}, err
		}
	}
	found, err := s.mustFind(c, c.Query().Get("sessionId"), named.SessionID)
	if err != nil {
		return question{}, err
	}
	noted, err := s.noted(c.Context(), found)
	if err != nil {
		return question{}, err
	}
	return s.address(noted, body)
}

// address says whom a query of a session is for.
func (s *Sessions) address(noted record.Session, body []byte) (question, error) {
	request, err := s.Speech.Query.Decode(body)
	if err != nil {
		return question{}, err
	}
	q := question{threadID: noted.ThreadID, request: request, body: body}
	q.request.ThreadID = noted.ThreadID
	q.agentID, q.request.Context.Model, err = s.answering(noted)
	return q, err
}

// ask has a query accepted and opens its log.
func (s *Sessions) ask(c *api.Call, q question) (admission.Ticket, stream.Answer, error) {
	defer c.Hurry()()
	ticket, err := c.Accept(q.agentID, q.request, q.body)
	if err != nil {
		return ticket, stream.Answer{}, err
	}
	answer, err := c.Began(ticket)
	return ticket, answer, err
}

// postQuery asks a session and answers with what came of it (S0, POST /api/v1/sessions/query).
func (s *Sessions) postQuery(c *api.Call) error {
	q, err := s.question(c)
	if err != nil {
		return err
	}
	return s.collect(c, q, "")
}

// collect waits for what comes of a query. A session that the call has made is named in the answer.
func (s *Sessions) collect(c *api.Call, q question, made string) error {
	_, answer, err := s.ask(c, q)
	if err != nil {
		return err
	}
	came := newOutcome(made)
	if err := c.Collect(answer, came.add); err != nil {
		return err
	}
	if came.failure != nil {
		return c.Reply(http.StatusInternalServerError, came.failed())
	}
	return c.Reply(http.StatusOK, came)
}

// postQueryStream asks a session and streams what comes of it (S0, POST /api/v1/sessions/query/stream).
func (s *Sessions) postQueryStream(c *api.Call) error {
	q, err := s.question(c)
	if err != nil {
		return err
	}
	return s.stream(c, q, nil)
}

// stream streams what comes of a query, behind a first event of the caller's (nil = none). Its cursors are those of the
// session's stream, so that a client whose connection breaks goes on there.
func (s *Sessions) stream(c *api.Call, q question, first jsontext.Value) error {
	d, err := s.Speech.of(c, s.Speech.Query, s.Speech.Protocol)
	if err != nil {
		return err
	}
	ticket, answer, err := s.ask(c, q)
	if err != nil {
		return err
	}
	index, err := s.index(c, ticket)
	if err == nil {
		answer.Encoder, err = c.Encoder(d, dialect.Options{Place: stream.Within(index)})
	}
	if err == nil && first != nil {
		answer.Encoder, err = announce(answer.Encoder, first)
	}
	if err != nil {
		answer.Frames.Close()
		return err
	}
	return c.Stream(answer)
}

// index is which of its thread's requests one is.
func (s *Sessions) index(c *api.Call, t admission.Ticket) (int, error) {
	if t.Past {
		return t.Index, nil
	}
	defer c.Hurry()()
	tenant := c.Principal().Tenant
	newest, err := s.Bus.Thread(c.Context(), tenant, t.ThreadID)
	if err != nil {
		return 0, authz.Unavailable(err)
	}
	if newest.RequestID == t.RequestID {
		return newest.Index, nil
	}
	return s.indexAmong(c.Context(), tenant, t, newest)
}

// indexAmong looks through all records of a thread: another request came behind this one, or it is a retry's.
func (s *Sessions) indexAmong(ctx context.Context, tenant string, t admission.Ticket, newest bus.ThreadRecord) (int, error) {
	for record, err := range s.Bus.ThreadRecords(ctx, tenant, t.ThreadID, 0) {
		if err != nil {
			return 0, authz.Unavailable(err)
		}
		if record.RequestID == t.RequestID {
			return record.Index, nil
		}
	}
	return newest.Index, nil // the bus has forgotten its record; it will not be resumed there
}

// announced writes something before the first event.
type announced struct {
	dialect.Encoder
	first []byte
}

// announce frames an event as the encoder does its own, and puts it first.
func announce(enc dialect.Encoder, first jsontext.Value) (dialect.Encoder, error) {
	if enc.ContentType() != sse.ContentType {
		return &announced{enc, append(first, '\n')}, nil
	}
	block, err := sse.Append(nil, "", "", first)
	return &announced{enc, block}, err
}

func (a *announced) Append(dst []byte, f event.Frame) ([]byte, error) {
	dst = append(dst, a.first...)
	a.first = nil
	return a.Encoder.Append(dst, f)
}
