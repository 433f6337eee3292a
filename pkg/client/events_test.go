package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
)

// pages is a server of a thread's events, two on a page.
type pages struct {
	log     []event.Event
	queries []string
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/threads/thr_1/events" {
		http.NotFound(w, r)
		return
	}
	p.queries = append(p.queries, r.URL.RawQuery)
	first := 0
	_, _ = fmt.Sscan(r.FormValue("cursor"), &first)
	var lines []string
	for _, e := range p.log[first:min(first+2, len(p.log))] {
		line, err := event.Encode(e)
		if err != nil {
			panic(err)
		}
		lines = append(lines, string(line))
	}
	next := ""
	if first+2 < len(p.log) {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, first+2)
	}
	_, _ = fmt.Fprintf(w, `{"events":[%s]%s}`, strings.Join(lines, ","), next)
}

func TestEventsComePageByPage(t *testing.T) {
	t.Parallel()
	p := &pages{log: transcript(4)[:5]}
	expect(t, serve(t, p).Events(t.Context(), "thr_1", client.EventsQuery{
		Types: []event.Name{event.NameText, event.NameDone}, Since: time.Unix(1, 5000).In(time.FixedZone("", 3600)), Until: time.Unix(9, 0),
	}), p.log)
	const of = "limit=1000&since=1970-01-01T00%3A00%3A01.000005Z&type=text%2Cdone&until=1970-01-01T00%3A00%3A09Z"
	if got := strings.Join(p.queries, " "); got != of+" cursor=2&"+of+" cursor=4&"+of {
		t.Errorf("asked for %s", got)
	}
	p.queries = nil
	for range serve(t, p).Events(t.Context(), "thr_1", client.EventsQuery{}) {
		break
	}
	if len(p.queries) != 1 || p.queries[0] != "limit=1000" {
		t.Errorf("one who leaves early has asked for %v", p.queries)
	}
}

func TestEventsThatAreNotThere(t *testing.T) {
	t.Parallel()
	_, err := collect(serve(t, &pages{}).Events(t.Context(), "thr_2", client.EventsQuery{}))
	if apierr.CodeOf(err) != apierr.RouteNotFound {
		t.Errorf("got %v", err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"events":[{"event":"text","requestId":7}]}`)
	}))
	defer server.Close()
	if _, err = collect(client.New(server.URL, "").Events(t.Context(), "thr_1", client.EventsQuery{})); err == nil {
		t.Error("an invalid event: no error")
	}
}
