package tarko

import (
	"context"
	"net/http"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/go-json-experiment/json/jsontext"
)

// question is a query that was understood: what is asked, and whom.
type query struct {
	threadID string
	agentID  string
	request  event.AgentRequest
	body     []byte // a retry brings the same
}

// readQuery reads the query of a session.
func (s *Server) readQuery(x *protocol.Exchange) (query, error) {
	body, err := x.Body()
	if err != nil {
		return query{}, err
	}
	defer x.WithTimeout()()
	var named struct {
		SessionID string         `json:"sessionId"`
		Query     jsontext.Value `json:"query"` // left to the dialect, once it is known that the session is there
	}
	if len(body) > 0 {
		if err := decode(body, &named); err != nil {
			return query{}, err
		}
	}
	found, err := s.mustFind(x, x.Query().Get("sessionId"), named.SessionID)
	if err != nil {
		return query{}, err
	}
	noted, err := s.metadata(x.Context(), found)
	if err != nil {
		return query{}, err
	}
	return s.newQuery(noted, body)
}

// newQuery says whom a query of a session is for.
func (s *Server) newQuery(noted record.Session, body []byte) (query, error) {
	request, err := s.encodings.query.Decode(body)
	if err != nil {
		return query{}, err
	}
	q := query{threadID: noted.ThreadID, request: request, body: body}
	q.request.ThreadID = noted.ThreadID
	q.agentID, q.request.Context.Model, err = s.route(noted)
	return q, err
}

// accept has a query accepted and opens its log.
func (s *Server) accept(x *protocol.Exchange, q query) (admission.Receipt, stream.Response, error) {
	defer x.WithTimeout()()
	ticket, err := x.Accept(protocol.Request{AgentID: q.agentID, Request: q.request, Target: q.request.ThreadID, Body: q.body})
	if err != nil {
		return ticket, stream.Response{}, err
	}
	answer, err := x.Open(ticket)
	return ticket, answer, err
}

// postQuery asks a session and answers with what came of it (S0, POST /api/v1/sessions/query).
func (s *Server) postQuery(x *protocol.Exchange) error {
	q, err := s.readQuery(x)
	if err != nil {
		return err
	}
	return s.collect(x, q, "")
}

// collect waits for what comes of a query. A session that the call has made is named in the answer.
func (s *Server) collect(x *protocol.Exchange, q query, made string) error {
	_, answer, err := s.accept(x, q)
	if err != nil {
		return err
	}
	came := newOutcome(made)
	if err := x.Collect(answer, came.add); err != nil {
		return err
	}
	if came.failure != nil {
		return x.Reply(http.StatusInternalServerError, came.failed())
	}
	return x.Reply(http.StatusOK, came)
}

// postQueryStream asks a session and streams what comes of it (S0, POST /api/v1/sessions/query/stream).
func (s *Server) postQueryStream(x *protocol.Exchange) error {
	q, err := s.readQuery(x)
	if err != nil {
		return err
	}
	return s.stream(x, q, nil)
}

// stream streams what comes of a query, behind a first event of the caller's (nil = none). Its cursors are those of the
// session's stream, so that a client whose connection breaks goes on there.
func (s *Server) stream(x *protocol.Exchange, q query, first jsontext.Value) error {
	d, err := choose(x, s.encodings.query, s.encodings.queryNested)
	if err != nil {
		return err
	}
	ticket, answer, err := s.accept(x, q)
	if err != nil {
		return err
	}
	index, err := s.index(x, ticket)
	if err == nil {
		answer.Encoder, err = x.Encoder(d, codec.Options{Cursor: stream.RequestCursor(index)})
	}
	if err == nil && first != nil {
		answer.Encoder, err = prefixEncoder(answer.Encoder, first)
	}
	if err != nil {
		answer.Frames.Close()
		return err
	}
	return x.Stream(answer)
}

// index is which of its thread's requests one is.
func (s *Server) index(x *protocol.Exchange, t admission.Receipt) (int, error) {
	if t.Archived {
		return t.Index, nil
	}
	defer x.WithTimeout()()
	tenant := x.Principal().Tenant
	newest, err := s.Bus.Thread(x.Context(), tenant, t.ThreadID)
	if err != nil {
		return 0, authz.Unavailable(err)
	}
	if newest.RequestID == t.RequestID {
		return newest.Index, nil
	}
	return s.indexAmong(x.Context(), tenant, t, newest)
}

// indexAmong looks through all records of a thread: another request came behind this one, or it is a retry's.
func (s *Server) indexAmong(ctx context.Context, tenant string, t admission.Receipt, newest bus.ThreadRecord) (int, error) {
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

// prefixedEncoder writes something before the first event.
type prefixedEncoder struct {
	codec.Encoder
	first []byte
}

// prefixEncoder frames an event as the encoder does its own, and puts it first.
func prefixEncoder(enc codec.Encoder, first jsontext.Value) (codec.Encoder, error) {
	if enc.ContentType() != sse.ContentType {
		return &prefixedEncoder{enc, append(first, '\n')}, nil
	}
	block, err := sse.Append(nil, "", "", first)
	return &prefixedEncoder{enc, block}, err
}

func (a *prefixedEncoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	dst = append(dst, a.first...)
	a.first = nil
	return a.Encoder.Append(dst, f)
}
