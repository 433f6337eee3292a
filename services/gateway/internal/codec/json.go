package codec

import (
	"errors"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AtMost decodes lists of T. It stops at the first entry over limit, before a small body becomes a large value in memory, and
// returns an apierr.InvalidMessageFormat, with advice after "send at most LIMIT, " ("" = none). An empty list is decoded as empty, not as nil.
func AtMost[T any](limit int, advice string) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, list *[]T) error {
		if dec.PeekKind() != jsontext.KindBeginArray {
			return errors.ErrUnsupported // the decoder reports the error, or accepts a null
		}
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		*list = []T{}
		for dec.PeekKind() != jsontext.KindEndArray {
			if len(*list) == limit {
				return tooMany(dec.StackPointer().Parent(), limit, advice)
			}
			var entry T
			if err := json.UnmarshalDecode(dec, &entry); err != nil {
				return err
			}
			*list = append(*list, entry)
		}
		_, err := dec.ReadToken()
		return err
	})
}

func tooMany(list jsontext.Pointer, limit int, advice string) error {
	if advice == "" {
		return apierr.New(apierr.InvalidMessageFormat, "%s has more than %d entries", Path(list), limit)
	}
	return apierr.New(apierr.InvalidMessageFormat, "%s has more than %d entries; send at most %d, %s", Path(list), limit, limit, advice)
}

// maxPath bounds the names from a body that an error repeats, in bytes.
const maxPath = 120

// Path returns a JSON pointer in the form messages[0].content, for errors; "the body" for the whole document.
func Path(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + cut(token))
		default:
			b.WriteString(cut(token))
		}
	}
	if b.Len() == 0 {
		return "the body"
	}
	return cut(b.String())
}

func cut(s string) string {
	if len(s) <= maxPath {
		return s
	}
	return strings.ToValidUTF8(s[:maxPath], "") + "…"
}
