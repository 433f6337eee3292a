package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// HashArgs returns the SHA-256, in hex, of a tool call's arguments in canonical form (RFC 8785, but integers keep all
// their digits, since a tool may read more of them than a float64 holds), so that an approval is for these arguments
// however they are spaced or ordered, and for no others.
func HashArgs(args json.RawMessage) (string, error) {
	canonical := slices.Clone(args)
	if err := (*jsontext.Value)(&canonical).Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return "", fmt.Errorf("canonical form of tool arguments: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
