package tarko

import (
	"context"
	"encoding/json"
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
)

// query is a decoded query and its recipient.
type query struct {
	threadID string
	agentID  string
	request  event.AgentRequest
	body     []byte // equal in a retry
}

// readQuery reads a query, and finds its session.
func (s *Server) readQuery(x *protocol.Exchange) (query, error) {
	body, err := x.Body()
	if err != nil {
		return query{}, err
	}
	defer x.WithTimeout()()
	var named struct { // the codec decodes the rest, after the session was found
		SessionID string `json:"sessionId"`
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
	meta, err := s.metadata(x.Context(), found)
	if err != nil {
		return query{}, err
	}
	q, err := s.newQuery(meta, body)
	if err != nil {
		return query{}, err
	}
	return q, s.resolveTyped(x.Context(), found, &q.request)
}

// newQuery decodes a query, for the agent and model of the session.
func (s *Server) newQuery(meta record.Session, body []byte) (query, error) {
	request, err := s.encodings.query.Decode(body)
	if err != nil {
		return query{}, err
	}
	q := query{threadID: meta.ThreadID, request: request, body: body}
	q.request.ThreadID = meta.ThreadID
	q.agentID, q.request.Context.Model, err = s.route(meta)
	return q, err
}

// accept accepts a query and opens its log.
func (s *Server) accept(x *protocol.Exchange, q query) (admission.Receipt, stream.Response, error) {
	defer x.WithTimeout()()
	ticket, err := x.Accept(protocol.Request{AgentID: q.agentID, Request: q.request, Target: q.request.ThreadID, Body: q.body})
	if err != nil {
		return ticket, stream.Response{}, err
	}
	answer, err := x.Open(ticket)
	return ticket, answer, err
}

// postQuery runs a query and returns its outcome.
func (s *Server) postQuery(x *protocol.Exchange) error {
	q, err := s.readQuery(x)
	if err != nil {
		return err
	}
	return s.collect(x, q, "")
}

// collect runs a query to its end and replies with the outcome, which names the session that the call has created (made).
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

// postQueryStream runs a query and streams its events.
func (s *Server) postQueryStream(x *protocol.Exchange) error {
	q, err := s.readQuery(x)
	if err != nil {
		return err
	}
	return s.stream(x, q, nil)
}

// stream streams the events of a query, after a first event of the caller's (nil = none). Its cursors are those of the session's
// stream, where a client resumes after a lost connection.
func (s *Server) stream(x *protocol.Exchange, q query, first json.RawMessage) error {
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

// index returns the index of a request on its thread.
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

// indexAmong searches the records of a thread for a request that is not the newest.
func (s *Server) indexAmong(ctx context.Context, tenant string, t admission.Receipt, newest bus.ThreadRecord) (int, error) {
	for record, err := range s.Bus.ThreadRecords(ctx, tenant, t.ThreadID, 0) {
		if err != nil {
			return 0, authz.Unavailable(err)
		}
		if record.RequestID == t.RequestID {
			return record.Index, nil
		}
	}
	return newest.Index, nil // its record has expired, and with it the cursors of the stream
}

// prefixedEncoder writes one event before those of the log.
type prefixedEncoder struct {
	codec.Encoder
	first []byte
}

// prefixEncoder returns an encoder that writes first before the events of enc, in the same framing.
func prefixEncoder(enc codec.Encoder, first json.RawMessage) (codec.Encoder, error) {
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
