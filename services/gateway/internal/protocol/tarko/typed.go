package tarko

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	jsonv2 "github.com/go-json-experiment/json"
)

// The words that decide the open approvals of a session. Case, spaces and a final mark do not count.
var (
	yesWords = []string{"yes", "y", "ok", "okay", "allow", "approve"}
	noWords  = []string{"no", "n", "deny", "refuse", "reject"}
)

// resolveTyped makes a query that is a text the result of what the session waits for, because Tarko's page has nothing else
// to answer with: the text is the result of the only open question, and a word of agreement or refusal decides all open
// approvals. Any other query stays a message, and closes the open actions.
func (s *Server) resolveTyped(ctx context.Context, found session, r *event.AgentRequest) error {
	text, ok := typedText(*r)
	if !ok {
		return nil
	}
	open, err := s.openActions(ctx, found.tenant, found.thread)
	if err != nil || len(open) == 0 {
		return err
	}
	results := typedResults(slices.SortedFunc(maps.Values(open), func(a, b rediscache.Action) int {
		return strings.Compare(a.ActionID, b.ActionID)
	}), text)
	if len(results) > 0 {
		r.Messages, r.Context.ActionResults = []event.InputMessage{}, results
	}
	return nil
}

func (s *Server) openActions(ctx context.Context, tenant string, thread bus.ThreadRecord) (map[string]rediscache.Action, error) {
	open, err := s.Acceptor.OpenActions(ctx, tenant, thread)
	if err != nil {
		return nil, authz.Unavailable(err)
	}
	return open, nil
}

// typedText returns the text of a request that consists of one text.
func typedText(r event.AgentRequest) (string, bool) {
	if len(r.Context.ActionResults) > 0 || len(r.Messages) != 1 || len(r.Messages[0].Content) != 1 {
		return "", false
	}
	part := r.Messages[0].Content[0]
	return part.Text, part.Type == event.ContentText
}

// typedResults returns the results that text gives to the open actions, none if it is a message.
func typedResults(open []rediscache.Action, text string) []event.ActionResult {
	if len(open) == 1 && open[0].Kind == event.ContinueInput {
		answer, err := jsonv2.Marshal(text)
		if err != nil {
			return nil // not reached: the text was decoded from JSON
		}
		return []event.ActionResult{{ActionID: open[0].ActionID, Status: event.ActionSuccess, Result: json.RawMessage(answer)}}
	}
	if slices.ContainsFunc(open, func(a rediscache.Action) bool { return a.Kind != event.ContinueApproval }) {
		return nil
	}
	word := strings.ToLower(strings.TrimRight(strings.TrimSpace(text), ".!"))
	status := event.ActionSuccess
	switch {
	case slices.Contains(noWords, word):
		status = event.ActionDenied
	case !slices.Contains(yesWords, word):
		return nil
	}
	results := make([]event.ActionResult, 0, len(open))
	for _, a := range open {
		results = append(results, event.ActionResult{ActionID: a.ActionID, Status: status})
	}
	return results
}
