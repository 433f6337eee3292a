package transcript

import (
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/event"
)

// Settings are what a request sets for its turns. A request that continues an earlier one, since it brings the results of
// actions, keeps each setting that it does not bring itself, except for the tool choice: that is for one request.
type Settings struct {
	Tools   []event.RequestTool
	Options event.RequestOptions
	System  string
	Context json.RawMessage
}

// Settings returns the settings of the newest request.
func (s *State) Settings() Settings { return s.settings }

// next returns the settings of the request that begins with b, after a request with the settings s.
func (s Settings) next(b event.Input) Settings {
	n := Settings{Tools: b.Tools, Options: b.Options, System: b.System, Context: b.Context}
	if len(b.ActionResults) == 0 {
		return n
	}
	if n.Tools == nil {
		n.Tools = s.Tools
	}
	if n.Options.IsZero() {
		n.Options = s.Options
		n.Options.ToolChoice = nil
	}
	if n.System == "" {
		n.System = s.System
	}
	if len(n.Context) == 0 {
		n.Context = s.Context
	}
	return n
}
