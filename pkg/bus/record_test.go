package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

func firstRecordWins(t *testing.T, b *bus.Bus) {
	log := newLog()
	if _, err := b.Accepted(t.Context(), log); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
	var wins atomic.Int32
	var race sync.WaitGroup
	stored := make([]string, 8)
	for i := range stored {
		race.Go(func() {
			a := record.Accepted{Tenant: log.Tenant, RequestID: log.RequestID, Owner: fmt.Sprint(i)}
			got, first, err := b.Accept(t.Context(), a)
			if err != nil {
				t.Error(err)
			}
			if first {
				wins.Add(1)
			}
			stored[i] = got.Owner
		})
	}
	race.Wait()
	if wins.Load() != 1 {
		t.Fatalf("%d writers won, want 1", wins.Load())
	}
	for _, owner := range stored {
		if owner != stored[0] {
			t.Fatalf("writers saw different records: %v", stored)
		}
	}
}

func advancesThread(t *testing.T, b *bus.Bus) {
	thread := id.New(id.Thread)
	first, err := b.AdvanceThread(t.Context(), "t", record.Thread{ThreadID: thread, RequestID: "r0"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.AdvanceThread(t.Context(), "t", record.Thread{ThreadID: thread, RequestID: "late"}, 0); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("got %v, want ErrConflict", err)
	}
	second := record.Thread{ThreadID: thread, RequestID: "r1", Index: 1}
	if _, err := b.AdvanceThread(t.Context(), "t", second, first.Sequence); err != nil {
		t.Fatal(err)
	}
	newest, err := b.Thread(t.Context(), "t", thread)
	if err != nil || newest.RequestID != "r1" || newest.Index != 1 {
		t.Fatalf("got %+v (%v), want r1 at 1", newest, err)
	}
	var order []string
	for r, err := range b.ThreadRecords(t.Context(), "t", thread, 0) {
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, r.RequestID)
	}
	if got := strings.Join(order, " "); got != "r0 r1" {
		t.Fatalf("got records %q, want %q", got, "r0 r1")
	}
}

func followsThread(t *testing.T, b *bus.Bus) {
	thread := id.New(id.Thread)
	var after uint64
	advance := func(i int) {
		r, err := b.AdvanceThread(t.Context(), "t", record.Thread{ThreadID: thread, Index: i}, after)
		if err != nil {
			t.Fatal(err)
		}
		after = r.Sequence
	}
	advance(0)
	f, err := b.FollowThread(t.Context(), "t", thread, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 5 {
		r, err := f.Next(t.Context(), 10*time.Second)
		if err != nil || r.Index != i {
			t.Fatalf("got record %d (%v), want %d", r.Index, err, i)
		}
		advance(i + 1)
	}
	_, _ = f.Next(t.Context(), 10*time.Second)
	if _, err := f.Next(t.Context(), time.Millisecond); !errors.Is(err, bus.ErrIdle) {
		t.Fatalf("got %v, want ErrIdle", err)
	}
}

func tellsOfAbort(t *testing.T, b *bus.Bus) {
	log := newLog()
	found := make(chan record.Abort, 2)
	watch := func() func() {
		stop, err := b.WatchAbort(t.Context(), log, func(a record.Abort) { found <- a })
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	defer watch()()
	first, err := b.Abort(t.Context(), log.Tenant, record.Abort{RequestID: log.RequestID, By: "one"})
	if err != nil || !first {
		t.Fatalf("first abort: first=%t, %v", first, err)
	}
	if first, err = b.Abort(t.Context(), log.Tenant, record.Abort{RequestID: log.RequestID, By: "two"}); err != nil || first {
		t.Fatalf("second abort: first=%t, %v", first, err)
	}
	defer watch()()
	for range 2 {
		if a := <-found; a.By != "one" {
			t.Fatalf("watch found the abort by %q, want by one", a.By)
		}
	}
}

func tellsOfAllAborts(t *testing.T, b *bus.Bus) {
	log := newLog()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type abort struct {
		tenant string
		record.Abort
	}
	found := make(chan abort, 64)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		if err := b.WatchAborts(ctx, func(tenant string, a record.Abort) { found <- abort{tenant, a} }); err != nil {
			t.Error(err)
		}
	})
	for told := false; !told; {
		log.RequestID = id.New(id.Request) // the watch may not be open yet, and does not report earlier aborts
		if _, err := b.Abort(t.Context(), log.Tenant, record.Abort{RequestID: log.RequestID, By: "one"}); err != nil {
			t.Fatal(err)
		}
		for late := time.After(50 * time.Millisecond); !told && late != nil; {
			select {
			case a := <-found: // other tests abort too
				told = a.RequestID == log.RequestID && a.tenant == log.Tenant && a.By == "one"
			case <-late:
				late = nil
			}
		}
	}
}

func keepsSteers(t *testing.T, b *bus.Bus) {
	log := newLog()
	steers := func(after uint64) (texts []string, last uint64) {
		for s, err := range b.Steers(t.Context(), log, after) {
			if err != nil {
				t.Fatal(err)
			}
			texts, last = append(texts, s.Messages[0].Content[0].Text), s.Sequence
		}
		return texts, last
	}
	if texts, _ := steers(0); len(texts) > 0 {
		t.Fatalf("a request without steers has %q", texts)
	}
	for _, text := range []string{"one", "two", "one"} { // the same steer twice
		s := record.Steer{RequestID: log.RequestID, SteerID: "steer_" + text, Messages: []event.InputMessage{event.UserText(text)}}
		if _, _, err := b.Steer(t.Context(), log.Tenant, s); err != nil {
			t.Fatal(err)
		}
	}
	// An abort of the request is not a steer, nor is a steer of another request.
	if _, err := b.Abort(t.Context(), log.Tenant, record.Abort{RequestID: log.RequestID}); err != nil {
		t.Fatal(err)
	}
	other := record.Steer{RequestID: log.RequestID + "x", SteerID: "s", Messages: []event.InputMessage{event.UserText("x")}}
	if _, _, err := b.Steer(t.Context(), log.Tenant, other); err != nil {
		t.Fatal(err)
	}
	texts, last := steers(0)
	if want := []string{"one", "two"}; !slices.Equal(texts, want) {
		t.Fatalf("steers are %q, want %q", texts, want)
	}
	if texts, _ := steers(last); len(texts) > 0 {
		t.Fatalf("behind the last steer there are %q", texts)
	}
}

func awaitsToolResult(t *testing.T, b *bus.Bus) {
	log := newLog()
	call := id.New(id.Call)
	var output strings.Builder
	heard := make(chan struct{})
	var once sync.Once
	result := make(chan record.ToolResult)
	go func() {
		r, err := b.AwaitToolResult(t.Context(), log, call, func(p record.ToolProgress) {
			output.WriteString(p.Delta)
			once.Do(func() { close(heard) })
		})
		if err != nil {
			t.Error(err)
		}
		result <- r
	}()
	for said := false; !said; { // output is not kept: repeat it until there is a subscriber
		if err := b.Progress(t.Context(), log, record.ToolProgress{ToolCallID: call, Delta: "."}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-heard:
			said = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	for _, content := range []string{"first", "second"} {
		r := record.ToolResult{ToolCallID: call, Status: event.ToolSuccess, Content: content}
		if _, _, err := b.PutToolResult(t.Context(), log, r); err != nil {
			t.Fatal(err)
		}
	}
	if r := <-result; r.Content != "first" || output.Len() == 0 {
		t.Fatalf("got %q after output %q, want the first result after some", r.Content, output.String())
	}
}

func keepsObjects(t *testing.T, b *bus.Bus) {
	data := bytes.Repeat([]byte("large"), 1<<18)
	ref, err := b.PutObject(t.Context(), "t1", "thr_1", data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Object(t.Context(), "t1", "thr_1", ref)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("got %d bytes (%v), want the %d that were stored", len(got), err, len(data))
	}
	again, err := b.PutObject(t.Context(), "t1", "thr_1", data)
	if err != nil || again != ref {
		t.Fatalf("the same data is %+v and %+v (%v), want one object", ref, again, err)
	}
	for who, at := range map[string][2]string{"another tenant": {"t2", "thr_1"}, "another thread": {"t1", "thr_2"}} {
		if _, err := b.Object(t.Context(), at[0], at[1], ref); !errors.Is(err, bus.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", who, err)
		}
	}
	if _, err := b.Object(t.Context(), "t1", "thr_1", event.ObjectRef{Object: "t1.thr_1", SHA256: ref.SHA256}); err == nil {
		t.Error("a name that is not an identifier was looked up")
	}
	ref.SHA256 = strings.Repeat("0", 64)
	if _, err := b.Object(t.Context(), "t1", "thr_1", ref); err == nil {
		t.Fatal("an object with another hash was returned")
	}
	if _, err := b.Object(t.Context(), "t1", "thr_1", event.ObjectRef{Object: "obj_none"}); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
}

func TestQueueGivesEachPointerToOneHandler(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	const jobs = 50
	var mu sync.Mutex
	seen := map[string]int{}
	left := make(chan struct{}, 2*jobs)
	var queues sync.WaitGroup
	for range 2 {
		queues.Go(func() {
			err := b.ConsumeRequests(ctx, 4, func(_ context.Context, s record.Start) error {
				mu.Lock()
				defer mu.Unlock()
				seen[s.RequestID]++
				left <- struct{}{}
				if seen[s.RequestID] == 1 && strings.HasSuffix(s.RequestID, "0") {
					return errors.New("try again")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for i := range jobs {
		a := record.Accepted{Tenant: "t", AgentID: "a", RequestID: fmt.Sprint("r", i)}
		for range 2 { // a repeated pointer is dropped
			if err := b.Start(t.Context(), a, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range jobs + jobs/10 {
		<-left
	}
	cancel()
	queues.Wait()
	for i := range jobs {
		want := 1
		if i%10 == 0 {
			want = 2
		}
		if got := seen[fmt.Sprint("r", i)]; got != want {
			t.Errorf("request %d was handled %d times, want %d", i, got, want)
		}
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var answer string
	if err := b.Ask(t.Context(), "nobody", "say", "hi", &answer); apierr.CodeOf(err) != apierr.Unavailable {
		t.Fatalf("got %v, want unavailable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() {
		served <- b.Serve(ctx, "echo", map[string]bus.Handler{
			"say":  func(_ context.Context, q []byte) (any, error) { return string(q), nil },
			"long": func(context.Context, []byte) (any, error) { return strings.Repeat("x", 3<<20), nil },
			"fail": func(context.Context, []byte) (any, error) {
				return nil, apierr.New(apierr.ThreadNotFound, "no %s", "x")
			},
			"hide": func(context.Context, []byte) (any, error) { return nil, errors.New("secret") },
		})
	}()
	for apierr.CodeOf(b.Ask(t.Context(), "echo", "say", 42, &answer)) == apierr.Unavailable {
		time.Sleep(time.Millisecond)
	}
	if answer != "42" {
		t.Fatalf("got %q, want the question", answer)
	}
	if err := b.Ask(t.Context(), "echo", "long", nil, &answer); err != nil || len(answer) != 3<<20 {
		t.Fatalf("got %d bytes (%v), want a long answer whole", len(answer), err)
	}
	if err := b.Ask(t.Context(), "echo", "fail", nil, &answer); apierr.CodeOf(err) != apierr.ThreadNotFound {
		t.Fatalf("got %v, want thread_not_found", err)
	}
	if err := b.Ask(t.Context(), "echo", "hide", nil, &answer); apierr.CodeOf(err) != apierr.Internal || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v, want an internal error that hides its text", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}

func TestProjectionBringsEveryEntryBackUntilItIsTaken(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	log := newLog()
	if _, _, err := b.Accept(t.Context(), record.Accepted{Tenant: "t", RequestID: log.RequestID, ThreadID: "thr"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AdvanceThread(t.Context(), "t", record.Thread{ThreadID: "thr", RequestID: log.RequestID}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.UpdateSession(t.Context(), "t", record.Session{ThreadID: "thr", Name: "new"}, bus.SessionRecord{}); err != nil {
		t.Fatal(err)
	}
	emit(t, claim(t, b, log), delta("a"), event.Done{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var kinds []string
	refused := false
	err := b.Project(ctx, nil, func(_ context.Context, batch []bus.Entry) ([]error, error) {
		errs := make([]error, len(batch))
		for i, e := range batch {
			switch {
			case e.Thread != nil && !refused:
				refused = true
				errs[i] = errors.New("not now")
			case e.Accepted != nil:
				kinds = append(kinds, "accept "+e.ThreadID+" "+e.RequestID)
			case e.Thread != nil:
				kinds = append(kinds, "thread "+e.ThreadID)
			case e.Session != nil:
				kinds = append(kinds, "session "+e.ThreadID+" "+e.Session.Name)
			case e.Frame.Terminal():
				kinds = append(kinds, "end "+e.RequestID)
			}
		}
		if len(kinds) == 4 {
			cancel()
		}
		return errs, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(kinds, "; "), fmt.Sprintf("accept thr %[1]s; session thr new; end %[1]s; thread thr", log.RequestID); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestKeyChangesAreReported(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	if err := b.PutKey(t.Context(), bus.KeyRecord{ID: "k1", Subject: "ann"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan string, 8)
	go func() {
		err := b.WatchKeys(ctx, func(k bus.KeyRecord) { told <- fmt.Sprint(k.ID, k.Revoked) }, func() { told <- "ready" })
		if err != nil {
			t.Error(err)
		}
	}()
	for _, want := range []string{"k1false", "ready"} {
		if got := <-told; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if err := b.PutKey(t.Context(), bus.KeyRecord{ID: "k1", Subject: "ann", Revoked: true}); err != nil {
		t.Fatal(err)
	}
	if got := <-told; got != "k1true" {
		t.Fatalf("got %s, want k1true", got)
	}
	all, err := b.Keys(t.Context())
	if err != nil || len(all) != 1 || !all[0].Revoked {
		t.Fatalf("got keys %v (%v), want the revoked one", all, err)
	}
	if _, err := b.Key(t.Context(), "k2"); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
}
