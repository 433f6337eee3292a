package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is a message as a stream holds it.
type Message struct {
	Subject  string
	Sequence uint64
	Time     time.Time
	Header   nats.Header
	Data     []byte
}

// getRequest is the body of a direct get.
type getRequest struct {
	Seq      uint64 `json:"seq,omitzero"`
	NextFor  string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitzero"`
	MaxBytes int    `json:"max_bytes,omitzero"`
	LastFor  string `json:"last_by_subj,omitempty"`
}

// AnswerWait bounds one round trip to the broker. Callers retry if they need the response.
const AnswerWait = 5 * time.Second

// Newest returns the newest message on subject, or ErrNotFound, as the leader has it: a replica may be older, and only the
// leader can say that a message does not exist.
func (b *Conn) Newest(ctx context.Context, stream, subject string) (Message, error) {
	if b.Replicated() {
		return b.LastOfLeader(ctx, stream, subject)
	}
	return b.LastDirect(ctx, stream, subject)
}

// LastOfLeader is as in [Reader].
func (s Server) LastOfLeader(ctx context.Context, stream, subject string) (Message, error) {
	return s.askLeader(ctx, stream, subject, getRequest{LastFor: subject})
}

// FirstOfLeader is as in [Reader].
func (s Server) FirstOfLeader(ctx context.Context, stream, subject string, from uint64) (Message, error) {
	return s.askLeader(ctx, stream, subject, getRequest{Seq: from, NextFor: subject})
}

func (s Server) askLeader(ctx context.Context, stream, subject string, which getRequest) (Message, error) {
	body, err := json.Marshal(which)
	if err != nil {
		return Message{}, err
	}
	msg, err := s.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: body}, AnswerWait)
	if err != nil {
		return Message{}, fmt.Errorf("read %s from the leader: %w", subject, err)
	}
	return leaderAnswer(subject, msg.Data)
}

// Delivered is as in [Reader].
func (s Server) Delivered(ctx context.Context, stream, consumer string) (uint64, error) {
	msg, err := s.request(ctx, &nats.Msg{Subject: "$JS.API.CONSUMER.INFO." + stream + "." + consumer}, AnswerWait)
	if err != nil {
		return 0, fmt.Errorf("look at consumer %s: %w", consumer, err)
	}
	var answer struct {
		Error     *jetstream.APIError `json:"error"`
		Delivered struct {
			Stream uint64 `json:"stream_seq"`
		} `json:"delivered"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return 0, fmt.Errorf("look at consumer %s: %w", consumer, err)
	}
	if answer.Error != nil {
		return 0, fmt.Errorf("look at consumer %s: %w", consumer, answer.Error)
	}
	return answer.Delivered.Stream, nil
}

// Remove is as in [Publisher].
func (s Server) Remove(ctx context.Context, stream string, sequence uint64) error {
	body := fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, sequence)
	msg, err := s.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.DELETE." + stream, Data: body}, AnswerWait)
	if err != nil {
		return fmt.Errorf("delete message %d of %s: %w", sequence, stream, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return fmt.Errorf("delete message %d of %s: %w", sequence, stream, err)
	}
	if answer.Error == nil || answer.Error.ErrorCode == codeNoMessage || answer.Error.ErrorCode == codeNotDeleted {
		return nil
	}
	return fmt.Errorf("delete message %d of %s: %w", sequence, stream, answer.Error)
}

// leaderAnswer decodes the answer of STREAM.MSG.GET.
func leaderAnswer(subject string, body []byte) (Message, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Hdrs    []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return Message{}, fmt.Errorf("read last of %s from the leader: %w", subject, err)
	}
	if answer.Error != nil {
		if answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return Message{}, ErrNotFound
		}
		return Message{}, fmt.Errorf("read last of %s from the leader: %w", subject, answer.Error)
	}
	if answer.Message == nil {
		return Message{}, fmt.Errorf("read last of %s from the leader: empty answer", subject)
	}
	m := answer.Message
	s := Message{Subject: m.Subject, Sequence: m.Seq, Time: m.Time, Data: m.Data}
	if len(m.Hdrs) > 0 {
		header, err := nats.DecodeHeadersMsg(m.Hdrs)
		if err != nil {
			return Message{}, fmt.Errorf("read last of %s from the leader: %w", subject, err)
		}
		s.Header = header
	}
	return s, nil
}

// LastDirect is as in [Reader].
func (s Server) LastDirect(ctx context.Context, stream, subject string) (Message, error) {
	msg, err := s.request(ctx, &nats.Msg{Subject: "$JS.API.DIRECT.GET." + stream + "." + subject}, AnswerWait)
	if err != nil {
		return Message{}, fmt.Errorf("read last of %s: %w", subject, err)
	}
	return directAnswer(msg)
}

// NextDirect is as in [Reader].
func (s Server) NextDirect(ctx context.Context, stream, subject string, from uint64) (Message, error) {
	body, err := json.Marshal(getRequest{Seq: from, NextFor: subject})
	if err != nil {
		return Message{}, err
	}
	msg, err := s.request(ctx, &nats.Msg{Subject: "$JS.API.DIRECT.GET." + stream, Data: body}, AnswerWait)
	if err != nil {
		return Message{}, fmt.Errorf("read %s from %d: %w", subject, from, err)
	}
	return directAnswer(msg)
}

// ReplicaPause is the wait for a replica that has not yet what the leader has.
const ReplicaPause = 5 * time.Millisecond

// PageSize bounds one batched direct get: it ends with the message that reaches one of the two.
type PageSize struct {
	Messages int
	Bytes    int // as they are stored
}

// FullPage is the page of a reader that keeps nothing of it.
func FullPage() PageSize { return PageSize{Messages: 500, Bytes: 1 << 20} }

// Page is one batched direct get. It needs no consumer, so nothing remains on the server.
func (s Server) Page(
	ctx context.Context, stream, subject string, from uint64, size PageSize,
) (messages []Message, more bool, err error) {
	ctx, cancel := s.link.Within(ctx, AnswerWait)
	defer cancel()
	body, err := json.Marshal(getRequest{Seq: max(from, 1), NextFor: subject, Batch: size.Messages, MaxBytes: size.Bytes})
	if err != nil {
		return nil, false, err
	}
	inbox := s.nc.NewInbox()
	answers := make(chan *nats.Msg, size.Messages+1)
	stop, err := s.Subscribe(inbox, answers)
	if err != nil {
		return nil, false, fmt.Errorf("read %s from %d: %w", subject, from, err)
	}
	defer stop()
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return nil, false, fmt.Errorf("read %s from %d: %w", subject, from, err)
	}
	for {
		var msg *nats.Msg
		select {
		case msg = <-answers:
		case <-ctx.Done():
			return nil, false, fmt.Errorf("read %s from %d: %w", subject, from, lostDuring(ctx, ctx.Err()))
		}
		switch msg.Header.Get("Status") {
		case "":
		case "204": // end of batch
			return messages, msg.Header.Get("Nats-Num-Pending") != "0", nil
		default:
			_, err = directAnswer(msg)
			if errors.Is(err, ErrNotFound) {
				return messages, false, nil
			}
			return nil, false, fmt.Errorf("read %s from %d: %w", subject, from, err)
		}
		m, err := directAnswer(msg)
		if err != nil {
			return nil, false, fmt.Errorf("read %s from %d: %w", subject, from, err)
		}
		messages = append(messages, m)
	}
}

// directAnswer decodes one answer to a direct get.
func directAnswer(msg *nats.Msg) (Message, error) {
	switch status := msg.Header.Get("Status"); status {
	case "":
	case "404":
		return Message{}, ErrNotFound
	case "503":
		return Message{}, nats.ErrNoResponders
	default:
		return Message{}, fmt.Errorf("broker answers %s %s", status, msg.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return Message{}, fmt.Errorf("broker answers without a sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, msg.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return Message{}, fmt.Errorf("broker answers without a time: %w", err)
	}
	return Message{
		Subject: msg.Header.Get("Nats-Subject"), Sequence: seq, Time: at, Header: msg.Header, Data: msg.Data,
	}, nil
}
