// Package redact removes credentials from addresses and errors before they reach a log or a terminal.
package redact

import (
	"errors"
	"net/url"
	"strings"
)

// URL returns the address, or the addresses separated by commas, without user, password, token and query. It reads
// addresses that net/url refuses, too: those are the ones that end up in errors.
func URL(addresses string) string {
	var kept []string
	for rest, more := addresses, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		part, _, _ = strings.Cut(strings.TrimSpace(part), "?")
		at := strings.LastIndex(part, "@")
		switch {
		case at >= 0:
			kept = append(kept, scheme(part)+part[at+1:])
		case strings.Contains(rest, "@") && (scheme(part) == "" || !strings.Contains(rest, "://")):
			// It may be a piece of a password that holds a comma.
		default:
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ",")
}

// scheme returns the scheme of an address with its "://", or "".
func scheme(address string) string {
	if name, _, found := strings.Cut(address, "://"); found && !strings.ContainsAny(name, "@:/,") {
		return name + "://"
	}
	return ""
}

// Error returns err without the address that net/url quotes when it cannot parse it.
func Error(err error) error {
	if parse, ok := errors.AsType[*url.Error](err); ok && parse.Op == "parse" {
		return cause(parse.Err)
	}
	return err
}

// cause hides what net/url quotes of the address: a port that is not a number may be the end of a password.
func cause(err error) error {
	if text, _, quotes := strings.Cut(err.Error(), " \""); quotes {
		return errors.New(text)
	}
	return err
}
