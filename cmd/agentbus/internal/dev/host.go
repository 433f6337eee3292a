package dev

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// checkHost refuses requests whose Host is a name of the public DNS. Without API keys, a stack is protected only by
// listening on the loopback address. A page in the user's browser could circumvent that by pointing one of its names to
// this address, which makes the stack a part of the page's origin.
func checkHost(next http.Handler) http.Handler {
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
		_, _ = w.Write(append(body, '\n')) // fails if the client has disconnected
	})
}

// isPrivate reports whether host, with or without a port, cannot be resolved by the public DNS: it is an address, a
// single label, or a name below a reserved domain.
func isPrivate(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	return net.ParseIP(host) != nil || !strings.Contains(host, ".") ||
		strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal")
}
