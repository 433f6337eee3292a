package bus

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/nats-io/nats.go"
)

// The headers of a frame. The names stand in a header so that readers may choose and pass on events unread.
const (
	headerFrame  = "Agentbus-Frame"  // <incarnation>-<epoch>-<first n>
	headerEvents = "Agentbus-Events" // names in order, runs as "text*12"
)

func setFrameHeaders(h nats.Header, f event.Frame) {
	h.Set(headerFrame, f.Incarnation+"-"+strconv.FormatUint(f.Epoch, 10)+"-"+strconv.FormatUint(f.First, 10))
	h.Set(headerEvents, packNames(f.Names))
}

// parseFrame reads a frame from its message. The body is shared, not copied.
func parseFrame(h nats.Header, body []byte, sequence uint64, at time.Time) (event.Frame, error) {
	head := h.Get(headerFrame)
	parts := strings.Split(head, "-")
	if len(parts) != 3 {
		return event.Frame{}, fmt.Errorf("message %d: header %s is %.60q", sequence, headerFrame, head)
	}
	epoch, errEpoch := strconv.ParseUint(parts[1], 10, 64)
	first, errFirst := strconv.ParseUint(parts[2], 10, 64)
	if errEpoch != nil || errFirst != nil {
		return event.Frame{}, fmt.Errorf("message %d: header %s is %.60q", sequence, headerFrame, head)
	}
	names, err := unpackNames(h.Get(headerEvents))
	if err != nil {
		return event.Frame{}, fmt.Errorf("message %d: %w", sequence, err)
	}
	return event.Frame{
		Incarnation: parts[0], Epoch: epoch, First: first, Names: names, Lines: body, Sequence: sequence, Time: at,
	}, nil
}

func packNames(names []event.Name) string {
	var packed strings.Builder
	for i := 0; i < len(names); {
		run := i + 1
		for run < len(names) && names[run] == names[i] {
			run++
		}
		if i > 0 {
			packed.WriteByte(',')
		}
		packed.WriteString(string(names[i]))
		if run-i > 1 {
			packed.WriteByte('*')
			packed.WriteString(strconv.Itoa(run - i))
		}
		i = run
	}
	return packed.String()
}

// maxFrameEvents bounds what a header may claim.
const maxFrameEvents = 1 << 16

func unpackNames(packed string) ([]event.Name, error) {
	if packed == "" {
		return nil, fmt.Errorf("header %s is missing", headerEvents)
	}
	var names []event.Name
	for run := range strings.SplitSeq(packed, ",") {
		name, times, repeated := strings.Cut(run, "*")
		count := 1
		if repeated {
			var err error
			if count, err = strconv.Atoi(times); err != nil || count < 2 {
				return nil, fmt.Errorf("header %s has run %.40q", headerEvents, run)
			}
		}
		if name == "" || len(names)+count > maxFrameEvents {
			return nil, fmt.Errorf("header %s has run %.40q", headerEvents, run)
		}
		for range count {
			names = append(names, event.Name(name))
		}
	}
	return names, nil
}
