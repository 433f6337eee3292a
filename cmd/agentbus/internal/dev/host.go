package dev

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// private refuses requests that name a host of the public DNS. Without keys the loopback address is all that protects a
// stack, and any page in the user's browser could get past it: by pointing a name of its own at that address, which
// makes us a part of its origin.
func private(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPrivate(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		body, err := event.Encode(event.Event{Time: time.Now(), Body: event.Error{
			Code:    apierr.AuthFailed,
			Message: "without keys agentbus dev answers only as localhost or by address; to use it under another name add --auth",
		}})
		if err != nil {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(append(body, '\n')) // who does not read it has left
	})
}

// isPrivate reports whether nobody can make the public DNS lead host, with or without a port, to this machine: it is an
// address, a single word, or below a name that is kept out of it.
func isPrivate(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	return net.ParseIP(host) != nil || !strings.Contains(host, ".") ||
		strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal")
}
