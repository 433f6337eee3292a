package durablestreams

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/durablestreams/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// The live modes of a read.
const (
	liveLongPoll = "long-poll"
	liveSSE      = "sse"
)

// The offsets that name a position in every stream.
const (
	beginning = "-1"
	now       = "now"
)

// query is what a client asks of a stream.
type query struct {
	offset  string // as the client sent it; "" = none
	live    string // "" = no
	cursor  string
	include []string
}

func parseQuery(x *protocol.Exchange) (query, error) {
	values := x.Query()
	q := query{live: values.Get("live"), cursor: values.Get("cursor"), include: x.QueryList("include")}
	offsets := values["offset"]
	switch {
	case len(offsets) > 1:
		return q, apierr.New(apierr.InvalidMessageFormat, "the URL has %d offsets; send one", len(offsets))
	case len(offsets) == 1 && offsets[0] == "":
		return q, apierr.New(apierr.InvalidMessageFormat, "the offset is empty; send -1 for the beginning of the stream")
	case len(offsets) == 1:
		q.offset = offsets[0]
	}
	switch q.live {
	case "":
	case liveLongPoll, liveSSE:
		if q.offset == "" {
			return q, apierr.New(apierr.InvalidMessageFormat, "live=%s needs an offset; send -1 for the beginning of the stream", q.live)
		}
	default:
		return q, apierr.New(apierr.InvalidMessageFormat, "live=%.40q: use %q or %q", q.live, liveLongPoll, liveSSE)
	}
	return q, nil
}

// reading is a read of a stream that has been opened.
type reading struct {
	query
	source source
	end    end // of the stream when it was opened
	frames *position
	codec  wire.Codec
	enc    codec.Encoder
	from   wire.Offset
}

// get reads a stream.
func (s *Server) get(x *protocol.Exchange, find finder) error {
	r, err := s.open(x, find)
	if errors.Is(err, errGone) {
		contentType, body := wire.EncodeGone()
		x.Write(http.StatusGone, contentType, body)
		return nil
	}
	if err != nil {
		return err
	}
	if r.live == liveSSE {
		return s.stream(x, r)
	}
	return s.page(x, r)
}

// open opens a stream at the offset of the client.
func (s *Server) open(x *protocol.Exchange, find finder) (*reading, error) {
	defer x.WithTimeout()()
	q, err := parseQuery(x)
	if err != nil {
		return nil, err
	}
	r := &reading{query: q}
	if r.source, r.end, err = find(x); err != nil {
		return nil, err
	}
	if slices.Contains(q.include, protocol.IncludeToolOutput) {
		if err := s.CheckToolOutput(x.Principal(), r.source.AgentID()); err != nil {
			return nil, err
		}
	}
	if r.from, err = r.offset(x.Context()); err != nil {
		return nil, err
	}
	if r.end.at.Before(r.from) {
		return nil, errGone
	}
	opened, err := r.source.Open(x.Context(), r.from)
	if err != nil {
		return nil, err
	}
	if err := r.encodeWith(r.source.Options(r.from)); err != nil {
		opened.Close()
		return nil, err
	}
	r.frames = &position{
		Frames: x.Resume(opened).Frames, at: r.from, end: r.end.at, closed: r.end.closed && r.from == r.end.at,
		after: r.source.After,
	}
	return r, nil
}

// offset returns the position that the client has sent.
func (r *reading) offset(ctx context.Context) (wire.Offset, error) {
	switch r.query.offset {
	case "", beginning:
		return r.source.Start(ctx)
	case now:
		return r.end.at, nil
	}
	return wire.ParseOffset(r.query.offset, r.end.at.Thread)
}

// encodeWith selects the encoder. The stream of a thread is never closed by an event.
func (r *reading) encodeWith(o codec.Options) error {
	sent := r.cursor
	r.codec = wire.Codec{
		Thread: r.end.at.Thread, Cursor: func() string { return wire.StreamCursor(time.Now(), sent) },
		UpToDate: func(next uint64) bool { return r.frames.isLast(next) },
	}
	o.Include = append(o.Include, r.include...)
	if r.live == liveSSE {
		o.Accept = sse.ContentType
	}
	var err error
	r.enc, err = r.codec.Encoder(o)
	return err
}

// position is frames with the position that they have reached.
type position struct {
	stream.Frames
	at     wire.Offset
	end    wire.Offset // of the stream when it was opened
	next   uint64      // n after the last frame
	closed bool        // the terminal event of a request's stream has been read
	after  func(event.Frame) wire.Offset
}

// Next implements stream.Frames.
func (p *position) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	f, err := p.Frames.Next(ctx, wait)
	if err == nil {
		p.at, p.next = p.after(f), f.Next()
		p.closed = f.Terminal() && !p.at.Thread
	}
	return f, err
}

// upToDate reports whether the frames have reached the end of the stream.
func (p *position) upToDate() bool { return !p.at.Before(p.end) && (p.closed || !p.Ready()) }

// isLast reports whether event n is the next one of the stream.
func (p *position) isLast(n uint64) bool { return n == p.next && p.upToDate() }

// The limits of a response that is not a stream.
const (
	maxPage   = 1 << 20          // bytes, and the rest of a frame
	catchUp   = 10 * time.Second // what storage may take for it; the client continues where it ends
	pageValid = "private, no-cache"
)

// page replies with the messages after an offset: those that are stored or, with long-poll, those that come next.
func (s *Server) page(x *protocol.Exchange, r *reading) error {
	limit := catchUp
	if r.live != "" {
		limit = s.Streamer.Heartbeat()
	}
	p := &pageFrames{position: r.frames, live: r.live != "", until: time.Now().Add(limit)}
	if r.query.offset == now && r.live == "" {
		p.until = time.Time{} // nothing is read
	}
	response := stream.Response{Frames: p, KeyID: x.Principal().KeyID}
	err := x.Collect(response, func(f event.Frame) (err error) {
		p.body, err = r.enc.Append(p.body, f)
		return err
	})
	if err != nil {
		return err
	}
	setPosition(x, p.at, p.upToDate() || p.until.IsZero(), p.closed)
	if r.live != "" && !p.closed {
		x.SetHeader(headerCursor, r.codec.Cursor())
	}
	if r.live != "" && len(p.body) == 0 {
		x.NoContent()
		return nil
	}
	if r.query.offset == now {
		return x.Reply(http.StatusOK, array(p.body))
	}
	tag := r.tag(p.position)
	x.SetHeader("ETag", tag)
	x.SetHeader("Cache-Control", pageValid)
	if matches(x.Header("If-None-Match"), tag) {
		x.Write(http.StatusNotModified, wire.JSON, nil)
		return nil
	}
	return x.Reply(http.StatusOK, array(p.body))
}

// array is messages that are encoded already.
type array []byte

// MarshalJSON implements json.Marshaler.
func (a array) MarshalJSON() ([]byte, error) { return wire.Array(a), nil }

// tag returns the ETag of the messages from the client's offset to a position. It differs when the stream is closed.
func (r *reading) tag(p *position) string {
	tag := r.from.String() + ":" + p.at.String() + ":" + strings.Join(r.include, ",")
	if p.closed {
		tag += ":c"
	}
	return `W/"` + tag + `"`
}

// matches reports whether a header If-None-Match has a tag.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// pageFrames are the frames of one response: they end where the response does.
type pageFrames struct {
	*position
	live  bool // the frames wait for a message
	until time.Time
	body  []byte
}

// Next implements stream.Frames.
func (p *pageFrames) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	left := time.Until(p.until)
	enough := p.upToDate() && (!p.live || len(p.body) > 0)
	if left <= 0 || p.closed || enough || len(p.body) >= maxPage {
		return event.Frame{}, io.EOF
	}
	f, err := p.position.Next(ctx, min(wait, left))
	if errors.Is(err, bus.ErrIdle) && time.Until(p.until) <= 0 {
		err = io.EOF
	}
	return f, err
}

// streamLifetimes is how long a stream of server-sent events lasts, in heartbeats: then the client connects again.
const streamLifetimes = 4

// stream writes server-sent events.
func (s *Server) stream(x *protocol.Exchange, r *reading) error {
	response := stream.Response{Encoder: r.enc, KeyID: x.Principal().KeyID}
	response.Frames = &liveFrames{r.frames, time.Now().Add(streamLifetimes * s.Streamer.Heartbeat())}
	if r.from == r.end.at {
		var err error
		if response.Prelude, err = r.codec.AppendControl(nil, r.from.String(), true, r.end.closed); err != nil {
			r.frames.Close()
			return err
		}
	}
	x.SetHeader("Cross-Origin-Resource-Policy", "same-origin")
	return x.Stream(response)
}

// liveFrames are frames that end after some time, and with the stream.
type liveFrames struct {
	*position
	until time.Time
}

// Next implements stream.Frames.
func (l *liveFrames) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	left := time.Until(l.until)
	if l.closed || left <= 0 && !l.Ready() {
		return event.Frame{}, io.EOF
	}
	return l.position.Next(ctx, min(wait, max(left, time.Millisecond)))
}
