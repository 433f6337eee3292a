package eventlog

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/nats-io/nats.go"
)

// The headers of a frame. The names are in a header so that a reader can select and forward events without decoding them.
const (
	HeaderFrame  = "Agentbus-Frame"  // <incarnation>-<epoch>-<first n>
	HeaderEvents = "Agentbus-Events" // names in order, runs as "text*12"

	headerEncoding = "Content-Encoding" // of the body: event.LinesEncoding, or absent for JSON lines
)

func setFrameHeaders(h nats.Header, f event.Frame) {
	h.Set(HeaderFrame, f.Incarnation+"-"+strconv.FormatUint(f.Epoch, 10)+"-"+strconv.FormatUint(f.First, 10))
	h.Set(HeaderEvents, event.PackNames(f.Names))
}

// ParseFrame returns the frame of a message. A body that is not compressed is shared, not copied.
func ParseFrame(header map[string][]string, body []byte, sequence uint64, at time.Time) (event.Frame, error) {
	h := nats.Header(header)
	frame, err := parsePosition(h, sequence, at)
	if err != nil {
		return event.Frame{}, err
	}
	if encoding := h.Get(headerEncoding); encoding != "" && encoding != event.LinesEncoding {
		return event.Frame{}, fmt.Errorf("message %d: %s is %.40q, must be %s or absent", sequence, headerEncoding, encoding, event.LinesEncoding)
	}
	// Compressed frames of earlier versions have no Content-Encoding.
	if frame.Lines, err = event.UnpackLines(body); err != nil {
		return event.Frame{}, fmt.Errorf("message %d: %w", sequence, err)
	}
	return frame, nil
}

// parsePosition returns the frame that the headers of a message describe: everything but the lines.
func parsePosition(h nats.Header, sequence uint64, at time.Time) (event.Frame, error) {
	head := h.Get(HeaderFrame)
	parts := strings.Split(head, "-")
	if len(parts) != 3 {
		return event.Frame{}, fmt.Errorf("message %d: header %s is %.60q", sequence, HeaderFrame, head)
	}
	epoch, errEpoch := strconv.ParseUint(parts[1], 10, 64)
	first, errFirst := strconv.ParseUint(parts[2], 10, 64)
	if errEpoch != nil || errFirst != nil {
		return event.Frame{}, fmt.Errorf("message %d: header %s is %.60q", sequence, HeaderFrame, head)
	}
	names, err := event.UnpackNames(h.Get(HeaderEvents))
	if err != nil {
		return event.Frame{}, fmt.Errorf("message %d: %w", sequence, err)
	}
	return event.Frame{
		Incarnation: parts[0], Epoch: epoch, First: first, Names: names, Sequence: sequence, Time: at,
	}, nil
}
