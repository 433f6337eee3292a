package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

// attackIDs are identifiers that must not come near a subject.
var attackIDs = []string{
	".", "a.b", "a..b", "*", ">", "a.>", "a b", "a\tb", "a\r\nPUB x 0\r\n\r\n", "a\x00b", "../", "../../etc/passwd",
	"$JS.API.STREAM.DELETE.EVENTS", "$SYS.>", "_INBOX.>", strings.Repeat("a", 65), strings.Repeat("a", 5000), "é", "e\u0301",
	"\u200b", "\u202e", "🙂", `{"$ne":1}`, "' OR 1=1--", "${jndi:ldap://x}", "{{7*7}}", "%2e%2e%2f", "a%00b", "[]", `["a"]`,
}

func TestAttackIDsInAPathReachNoSubject(t *testing.T) {
	t.Parallel()
	b := start(t)
	to := b.running()
	tap := b.nats.Tap(t)
	for _, r := range b.routes() {
		for _, param := range r.params() {
			for _, attack := range attackIDs {
				path := strings.Replace(r.path, param, url.PathEscape(attack), 1)
				a := b.do(b.request(r.method, route{path: path}.at(to), r.body(to.threadID)))
				if a.err != nil || a.status != http.StatusNotFound {
					t.Errorf("%s with %s = %.40q: got %d %v, want 404", r, param, attack, a.status, a.err)
					continue
				}
				asked := r
				if strings.Contains(attack, "/") && strings.Count(r.path, "/") == 1 {
					asked.owner = b.gateway.Protocols()[0] // it is a path in a folder of no protocol
				}
				asked.refusal(t, a, "_not_found")
			}
		}
	}
	if found := lookups(tap.Received()); len(found) > 0 {
		t.Errorf("the bus was asked: %.1000q", found)
	}
	b.works()
	if len(lookups(tap.Received())) == 0 {
		t.Error("the test receives no calls of the bus")
	}
}

func TestAttackIDsInABodyReachNoSubject(t *testing.T) {
	t.Parallel()
	b := start(t)
	to := b.running()
	tap := b.nats.Tap(t)
	ids := map[string]string{`1`: "a number", `["a"]`: "an array", `{"$ne":1}`: "an object", `true`: "a boolean", `""`: "nothing"}
	for _, attack := range attackIDs {
		ids[quote(attack)] = attack
	}
	for _, r := range b.routes() {
		if !r.takesBody() || r.namesNothing() {
			continue
		}
		for quoted, what := range ids {
			for _, body := range append(r.strangers(), r.body("ID")) {
				if !strings.Contains(body, `"ID"`) {
					continue // TestAttackIDsInAPathReachNoSubject
				}
				if quoted == `""` && r.owner.Name() == "a2a" {
					continue // that names no context, so that the message begins one
				}
				a := b.do(b.request(r.method, r.at(to), strings.Replace(body, `"ID"`, quoted, 1)))
				if r.isRPC() && a.status == http.StatusOK && strings.Contains(a.body, `"error":`) {
					continue
				}
				refused := a.status == http.StatusBadRequest || a.status == http.StatusNotFound && !r.strict()
				if a.err != nil || !refused {
					t.Errorf("%s: %s in %.80s: got %d %.200s %v, want a refusal", r, what, body, a.status, a.body, a.err)
					continue
				}
				r.refusal(t, a, "")
			}
		}
	}
	if found := lookups(tap.Received()); len(found) > 0 {
		t.Errorf("the bus was asked: %.1000q", found)
	}
	b.works()
}

func TestAttackIDsOfSessionsReachNoSubject(t *testing.T) {
	t.Parallel()
	b := start(t)
	tap := b.nats.Tap(t)
	for _, r := range b.ofSessions() {
		for _, attack := range attackIDs {
			a := b.do(b.request(r.method, r.path, strings.Replace(mention("ID"), `"ID"`, quote(attack), 1)))
			if r.method == http.MethodGet {
				a = b.get(r.path + "?sessionId=" + url.QueryEscape(attack))
			}
			if a.err != nil || a.status != http.StatusBadRequest && a.status != http.StatusNotFound {
				t.Errorf("%s with %.40q: got %d %.200s %v, want 400 or 404", r, attack, a.status, a.body, a.err)
				continue
			}
			r.refusal(t, a, "")
		}
	}
	if found := lookups(tap.Received()); len(found) > 0 {
		t.Errorf("the bus was asked: %.1000q", found)
	}
	b.works()
}

// quote writes s as a JSON string, whatever it holds.
func quote(s string) string {
	var out bytes.Buffer
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func TestAttackCursors(t *testing.T) {
	t.Parallel()
	b := start(t)
	to := b.running()
	cursors := append([]string{
		"-1", "18446744073709551616", "1e9", "1\nevent: done", "null", "0x1", " 1", "1 ", "١-١", b.bus.Incarnation() + "-",
		b.bus.Incarnation() + "--1", b.bus.Incarnation() + "-1.", "-0",
	}, attackIDs...)
	walked := 0
	for _, r := range b.routes() {
		if r.method != http.MethodGet || !r.streams() || r.spec.BearerSubprotocol || strings.HasSuffix(r.path, ":objectId") ||
			strings.HasSuffix(r.path, ":completionId") || strings.Contains(r.path, ":responseId") || strings.HasSuffix(r.path, "/join") ||
			strings.HasSuffix(r.path, ":taskId") {
			// The cursors of a socket are in its messages, those of a response are numbers, and what is not a stream has none.
			continue
		}
		walked++
		tap := b.nats.Tap(t)
		for _, cursor := range cursors {
			durable := strings.HasPrefix(r.path, "/streams/")
			if cursor == "-1" && (durable || strings.HasPrefix(r.path, "/langgraph/")) {
				continue // the start of a stream, as the clients of these protocols write it
			}
			parameter := "after="
			if durable {
				parameter = "offset="
			}
			a := b.get(r.with(to, parameter+url.QueryEscape(cursor)))
			if a.status != http.StatusBadRequest {
				t.Errorf("%s after %.40q: got %d %.200s, want 400", r, cursor, a.status, a.body)
			}
			r.refusal(t, a, apierr.InvalidMessageFormat)
			if durable || strings.ContainsAny(cursor, "\r\n\x00") {
				continue // the protocol has no such header, or no header can carry it: see TestAttackHeaders
			}
			a = b.get(r.with(to, ""), "Last-Event-ID", cursor)
			if a.status != http.StatusBadRequest {
				t.Errorf("%s with Last-Event-ID %.40q: got %d, want 400", r, cursor, a.status)
			}
			a = b.get(r.with(to, "after="+b.bus.Incarnation()+"-0"), "Last-Event-ID", cursor)
			if a.status != http.StatusBadRequest {
				t.Errorf("%s with %.40q and a valid cursor: got %d, want 400", r, cursor, a.status)
			}
		}
		for _, subject := range tap.Received() {
			for _, cursor := range cursors {
				if len(cursor) > 3 && strings.Contains(subject, cursor) {
					t.Errorf("%s: %.40q became part of %q", r, cursor, subject)
				}
			}
		}
	}
	if walked < 3 {
		t.Errorf("only %d routes stream", walked)
	}
	b.works()
}

func TestAttackQueries(t *testing.T) {
	t.Parallel()
	b := startOn(t, bustest.NewServer(t), &archive{})
	verbs := b.archive.verbs()
	verbs[historyapi.VerbSession] = func(context.Context, []byte) (any, error) {
		return nil, apierr.New(apierr.ThreadNotFound, "not stored")
	}
	verbs[historyapi.VerbSessions] = func(context.Context, []byte) (any, error) { return historyapi.SessionPage{}, nil }
	verbs[historyapi.VerbActions] = func(context.Context, []byte) (any, error) { return historyapi.ActionPage{}, nil }
	verbs[historyapi.VerbThreadFrames] = func(context.Context, []byte) (any, error) { return historyapi.ThreadFramePage{}, nil }
	b.background(func(ctx context.Context) error { return b.bus.Serve(ctx, historyapi.Service, verbs) })
	to := b.running()
	names := []string{"cursor", "limit", "offset", "since", "until", "type", "include", "from", "after", "path", "q", "protocol", "none"}
	for _, r := range b.routes() {
		if r.keyless() || r.method != http.MethodGet || r.streams() && !strings.HasSuffix(r.path, ":objectId") {
			continue
		}
		for i, name := range names {
			for j, attack := range attackIDs {
				if !r.strict() && j%len(names) != i {
					continue // its parameters are read in one place: each attack comes once or more for each route
				}
				a := b.get(r.with(to, name+"="+url.QueryEscape(attack)))
				if !r.strict() && a.err == nil && a.status < 500 {
					continue
				}
				if a.err != nil || a.status != http.StatusOK && a.status != http.StatusBadRequest {
					if a.status == http.StatusNotFound && (strings.HasSuffix(r.path, ":threadId") || strings.HasSuffix(r.path, ":objectId")) {
						continue // history, which this test replaces, does not have the thread, which keeps no objects
					}
					t.Errorf("%s?%s=%.40q: got %d %.200s %v", r, name, attack, a.status, a.body, a.err)
				}
			}
		}
	}
	b.works()
}
