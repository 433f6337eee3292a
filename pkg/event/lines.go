package event

import (
	"fmt"

	"github.com/klauspost/compress/s2"
)

const (
	// packFrom is the length from which lines are compressed. Shorter ones would save little; and a length from 128 on
	// makes the first byte of the packed form one that no JSON text begins with.
	packFrom = 1 << 10
	// maxLines bounds what packed lines may claim to be.
	maxLines = 4 << 20
)

// PackLines returns a frame's lines as they are stored: long ones compressed as a block of
// package klauspost/compress/s2, short ones unchanged. Events repeat most of their bytes, so long frames shrink to a tenth or less. The
// result is lines itself, or uses room if that is large enough.
func PackLines(room, lines []byte) []byte {
	if len(lines) < packFrom {
		return lines
	}
	packed := s2.Encode(room[:cap(room)], lines)
	if len(packed) >= len(lines) {
		return lines
	}
	return packed
}

// UnpackedSize returns how many bytes [UnpackLines] makes of packed lines, without doing so. For those that it refuses it
// is the length of what is there.
func UnpackedSize(packed []byte) int64 {
	if len(packed) > 0 && packed[0] >= 0x80 {
		if size, err := s2.DecodedLen(packed); err == nil && size <= maxLines {
			return int64(size)
		}
	}
	return int64(len(packed))
}

// UnpackLines is the inverse of [PackLines]. What is not compressed is returned as it is, not copied.
func UnpackLines(packed []byte) ([]byte, error) {
	if len(packed) == 0 || packed[0] < 0x80 {
		return packed, nil
	}
	size, err := s2.DecodedLen(packed)
	if err != nil {
		return nil, fmt.Errorf("packed lines: %w", err)
	}
	if size > maxLines {
		return nil, fmt.Errorf("packed lines claim %d bytes, more than %d", size, maxLines)
	}
	lines, err := s2.Decode(nil, packed)
	if err != nil {
		return nil, fmt.Errorf("packed lines: %w", err)
	}
	return lines, nil
}
