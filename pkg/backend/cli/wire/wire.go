// Package wire decodes the standard output of command-line agents, each in its format, into the chunks of [backend]. It
// depends on no process: it accepts bytes in pieces of any size, and returns chunks (agentic, parse_stream).
//
// Read lines.go for splitting into lines, claude.go, codex.go, opencode.go, record.go and text.go for the formats.
package wire

import (
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// Decoder turns the output of one run of an agent into chunks.
type Decoder interface {
	// Write takes the next bytes and gives what they complete. After an error it takes no more.
	Write(p []byte) ([]backend.Chunk, error)
	// Close says that there is no more, and gives what was left.
	Close() ([]backend.Chunk, error)
	// Requests gives the requests of the output that are new since the last call.
	Requests() []Request
	// Report is what the output has said of the run so far.
	Report() Report
}

// Request asks for a permission. The program waits for the response.
type Request struct {
	ID     string
	CallID string // of the ToolStarted, if there was one
	Tool   string // "" = the request is for something else
	Args   json.RawMessage
}

// Report is an agent's data about its run, other than the answer.
type Report struct {
	SessionID string
	Model     string
	Used      event.Usage
	Total     bool               // Used is of the whole session, not of this run alone
	Finish    event.FinishReason // "" = it has not said how the run ended
	Failure   string             // the reason for a missing answer; "" = no failure
	Missing   bool               // the session to resume does not exist
	Stalled   string             // reason for waiting; "" = it makes progress
}
