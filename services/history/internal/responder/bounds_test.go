package responder

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/storetest"
)

// lengthy is a request with so many blocks of a quarter of a megabyte, which ended with an error.
func lengthy(l storetest.Log, blocks int) []store.Entry {
	text := strings.Repeat("x", 256<<10)
	entries := []store.Entry{l.Accepted(), l.Thread(), l.Frame(0, event.Claim{Epoch: 1, Runner: "r"})}
	for i := range blocks {
		block := event.Block{MessageID: "m", BlockID: fmt.Sprint("b", i), Stage: event.StageStop}
		entries = append(entries, l.Frame(uint64(i+1), event.Text{Block: block, Text: text}))
	}
	return append(entries, l.Frame(uint64(blocks+1), event.Error{Code: apierr.AgentError, Message: "broken"}))
}

func TestMessagesOfARequestHaveABoundInBytes(t *testing.T) {
	t.Parallel()
	s, l := open(t), storetest.NewLog("thr", 0)
	if _, err := s.Apply(t.Context(), lengthy(l, 60), store.Known{}); err != nil {
		t.Fatal(err)
	}
	thread := historyapi.ThreadRef{Tenant: l.Tenant, ThreadID: l.ThreadID}
	page, err := New(s.Reader, bustest.New(t), idle{}, idle{}).Messages(t.Context(), historyapi.MessagesQuery{ThreadRef: thread})
	if err != nil || len(page.Messages) != 2 {
		t.Fatalf("got %d messages, %v, want what was asked and the answer", len(page.Messages), err)
	}
	bytes := 0
	for _, c := range page.Messages[1].Content {
		bytes += len(c.Text)
	}
	if bytes < messageBytes/2 || bytes > messageBytes+(1<<20) {
		t.Errorf("the answer has %d bytes of 15 MiB, want about %d", bytes, messageBytes)
	}
}

func TestATranscriptHasABoundInBytes(t *testing.T) {
	t.Parallel()
	s, first, second := open(t), storetest.NewLog("thr", 0), storetest.NewLog("thr", 1)
	if _, err := s.Apply(t.Context(), append(lengthy(first, 100), lengthy(second, 50)...), store.Known{}); err != nil {
		t.Fatal(err)
	}
	a := New(s.Reader, bustest.New(t), idle{}, idle{})
	thread := historyapi.ThreadRef{Tenant: first.Tenant, ThreadID: first.ThreadID}
	if answer, err := a.Transcript(t.Context(), historyapi.TranscriptQuery{ThreadRef: thread, Before: 1}); err != nil || len(answer.Requests) != 1 {
		t.Errorf("25 MiB: got %d requests, %v", len(answer.Requests), err)
	}
	if _, err := a.Transcript(t.Context(), historyapi.TranscriptQuery{ThreadRef: thread, Before: 2}); apierr.CodeOf(err) != apierr.MessageTooLarge {
		t.Errorf("37 MiB: got %v, want that it is too large", err)
	}
}
