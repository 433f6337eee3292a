package responder

import (
	"encoding/base64"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/go-json-experiment/json"
)

// place is the content of a page cursor. It grants no access: a forged cursor returns the same data as none.
type place struct {
	List      string    `json:"l"` // the verb
	Index     int       `json:"i,omitzero"`
	ID        string    `json:"r"` // of a request, or a thread
	N         uint64    `json:"n,omitzero"`
	UpdatedAt time.Time `json:"t,omitzero"`
	Tenant    string    `json:"o,omitempty"` // where a list has several
}

func (p place) cursor() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers, an identifier and a time from the database
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// readCursor returns the place after which a page begins; the zero place for no cursor.
func readCursor(list, cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	var p place
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, &p, json.RejectUnknownMembers(true))
	}
	if err != nil || p.List != list || !id.Valid(p.ID) || p.Index < 0 || p.N > 1<<62 {
		return place{}, apierr.New(apierr.InvalidMessageFormat,
			"cursor %.40q is not one of this list: pass nextCursor of the page before as it came, or none to begin", cursor)
	}
	return p, nil
}

func (p place) position() store.Position {
	return store.Position{Index: p.Index, RequestID: p.ID, N: p.N}
}
