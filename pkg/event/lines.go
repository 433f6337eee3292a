package event

import (
	"fmt"

	"github.com/klauspost/compress/s2"
)

const (
	// packFrom is the length from which lines are compressed. Shorter ones would save little; and a length from 128 on
	// makes the first byte of the packed form one that no JSON text begins with, which identifies compressed lines that have no
	// Content-Encoding: those in the database of history, and the frames of earlier versions.
	packFrom = 1 << 10
	// maxLines bounds what packed lines may claim to be.
	maxLines = 4 << 20
)

// LinesEncoding is the Content-Encoding of compressed lines: one block of Snappy, whose format has a decoder in most languages.
const LinesEncoding = "snappy"

// PackLines returns a frame's lines as they are stored: long ones compressed, see [LinesEncoding], short ones unchanged. Events
// repeat most of their bytes, so long frames shrink to an eighth. The result is lines itself, or uses room if that is large
// enough.
func PackLines(room, lines []byte) []byte {
	if len(lines) < packFrom {
		return lines
	}
	packed := s2.EncodeSnappy(room[:cap(room)], lines)
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

// UnpackLines is the inverse of [PackLines]. It also reads the blocks of package s2 that earlier versions have stored. Lines
// that are not compressed are returned as they are, not copied.
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
