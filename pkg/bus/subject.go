package bus

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
	kindEvent    = "event"
	kindAccept   = "accept"
	kindThread   = "thread"
	kindSession  = "session"
	kindCommand  = "command"
	kindStarted  = "started"
	kindResult   = "result"
	kindRequest  = "request"
	kindBacklog  = "backlog"
	kindTool     = "tool"
	kindProgress = "progress"
	kindLive     = "live"
	kindQuery    = "query"
)

// subject joins tokens under the prefix. It refuses every token that an id could not be, so that nothing from outside
// can reach another subject, add a wildcard, or grow past the protocol's line limit.
func (b *Bus) subject(tokens ...string) (string, error) {
	for _, token := range tokens {
		if err := checkToken(token); err != nil {
			return "", err
		}
	}
	return b.prefix + "." + strings.Join(tokens, "."), nil
}

// live is the subject under which what was stored on subject is republished.
func (b *Bus) live(subject string) string {
	return b.prefix + "." + kindLive + subject[len(b.prefix):]
}

// stored is the subject on which what came on a live subject is stored: the inverse of live.
func (b *Bus) stored(live string) string {
	return b.prefix + live[len(b.prefix)+1+len(kindLive):]
}

// tokens takes a subject apart into its kind and the tokens behind it.
func (b *Bus) tokens(subject string) (kind string, rest []string) {
	all := strings.Split(strings.TrimPrefix(subject, b.prefix+"."), ".")
	return all[0], all[1:]
}

func checkToken(token string) error {
	if !id.Valid(token) {
		return fmt.Errorf("%.40q is no identifier: it must match ^[A-Za-z0-9_-]{1,%d}$", token, id.MaxLength)
	}
	return nil
}
