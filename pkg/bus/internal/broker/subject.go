package broker

import (
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

// LogID names the log of one request.
type LogID = record.LogID

// The kinds of subjects; ARCHITECTURE.md has the table.
const (
	KindEvent    = "event"
	KindAccept   = "accept"
	KindThread   = "thread"
	KindSession  = "session"
	KindCommand  = "command"
	KindStarted  = "started"
	KindResult   = "result"
	KindRequest  = "request"
	KindBacklog  = "backlog"
	KindTool     = "tool"
	KindDelivery = "delivery"
	KindProgress = "progress"
	KindLive     = "live"
	KindQuery    = "query"
)

// The kinds of commands, the token that follows the id of the request.
const (
	KindAbort = "abort"
	KindSteer = "steer"
)

// Subject joins tokens under the prefix. It refuses every token that an id could not be, so that nothing from outside
// can reach another subject, add a wildcard, or grow past the protocol's line limit.
func (b *Conn) Subject(tokens ...string) (string, error) {
	for _, token := range tokens {
		if err := CheckToken(token); err != nil {
			return "", err
		}
	}
	return b.Prefix + "." + strings.Join(tokens, "."), nil
}

// Live is the subject under which what was stored on subject is republished.
func (b *Conn) Live(subject string) string {
	return b.Prefix + "." + KindLive + subject[len(b.Prefix):]
}

// StoredSubject returns the subject under which the message of a live subject is stored: the inverse of Live.
func (b *Conn) StoredSubject(live string) string {
	return b.Prefix + live[len(b.Prefix)+1+len(KindLive):]
}

// Tokens splits a subject into its kind and the tokens that follow.
func (b *Conn) Tokens(subject string) (kind string, rest []string) {
	all := strings.Split(strings.TrimPrefix(subject, b.Prefix+"."), ".")
	return all[0], all[1:]
}

// CheckToken refuses what is not a single token of a subject.
func CheckToken(token string) error {
	if !id.Valid(token) {
		return fmt.Errorf("%.40q is not an identifier: it must match ^[A-Za-z0-9_-]{1,%d}$", token, id.MaxLength)
	}
	return nil
}
