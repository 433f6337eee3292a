package records

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
)

const (
	// escapeGrowth is how many times longer a text may be in an event than in a record: U+2028 has 3 bytes in a record, and
	// 6 in an event, which escapes it.
	escapeGrowth = 2
)

// CheckAccepted returns an [ErrTooLarge] for a request that cannot be stored, because its record or the first frame of
// its log would not fit into one message. It measures each in the encoding in which it will be written: events escape
// characters that records do not.
func CheckAccepted(a record.Accepted) error {
	size, err := checkRecord("accept", a)
	if err != nil || escapeGrowth*size < broker.MaxEventBytes-broker.ClaimReserve {
		return err
	}
	return checkEvents(a.RequestID, a.Opening("", "")...)
}

// CheckSteer returns an [ErrTooLarge] for a steer of a request of an agent that cannot be stored, because its record, or
// the event that it becomes, would not fit into one message.
func CheckSteer(s record.Steer, threadID, agentID string) error {
	size, err := checkRecord("steer", s)
	if err != nil || escapeGrowth*size < broker.MaxEventBytes-broker.ClaimReserve {
		return err
	}
	return checkEvents(s.RequestID, s.Input(threadID, agentID))
}

// checkRecord returns the length of a record.
func checkRecord(what string, value any) (size int, err error) {
	body, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("encode record %s: %w", what, err)
	}
	if len(body) > broker.MaxEventBytes {
		return 0, fmt.Errorf("record %s of %d bytes: %w", what, len(body), broker.ErrTooLarge)
	}
	return len(body), nil
}

// checkEvents measures events as a log stores them, with the longest cursors that they may get.
func checkEvents(requestID string, bodies ...event.Body) error {
	cursor := event.NewCursor(strings.Repeat("z", event.MaxIncarnation), math.MaxUint32)
	var lines []byte
	for _, body := range bodies {
		var err error
		lines, err = event.Append(lines, event.Event{ID: cursor, RequestID: requestID, Time: time.Now(), Body: body})
		if err != nil {
			return err
		}
		lines = append(lines, '\n')
	}
	if len(lines) > broker.MaxEventBytes {
		return fmt.Errorf("events of %d bytes: %w", len(lines), broker.ErrTooLarge)
	}
	return nil
}
