// Package wire decodes what agents on the command line write to their standard output, each in its own format, into the
// chunks of [backend]. It knows no processes: bytes come in, however they are cut, and chunks come out (S1, parse_stream).
//
// Read lines.go for the cutting, claude.go, codex.go, opencode.go, record.go and text.go for the formats.
package wire

import (
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// Decoder turns the output of one run of an agent into chunks.
type Decoder interface {
	// Write takes the next bytes and gives what they complete. After an error it takes no more.
	Write(p []byte) ([]backend.Chunk, error)
	// Close says that there is no more, and gives what was left.
	Close() ([]backend.Chunk, error)
	// Report is what the output has said of the run so far.
	Report() Report
}

// Report is what an agent says of its run, beside the answer.
type Report struct {
	SessionID string
	Model     string
	Used      event.Usage
	Total     bool               // Used is of the whole session, not of this run alone
	Finish    event.FinishReason // "" = it has not said how the run ended
	Failure   string             // why there is no answer; "" = it did not fail
	Missing   bool               // the session to resume does not exist
	Stalled   string             // what it waits for; "" = it gets on
}
