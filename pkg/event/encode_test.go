package event

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestTimesAreWrittenAsTheirLayoutHasThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-1<<37, 1<<38).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond")).
			In(time.FixedZone("", rapid.IntRange(-50_000, 50_000).Draw(t, "zone")))
		if got, want := string(appendTime(nil, at)), at.UTC().Format(timestamp); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestStringsAreWrittenAsTheEncoderHasThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*[\x00-\xff]?`)).Draw(t, "string")
		want, err := json.Marshal(s, wire)
		if err != nil {
			t.Skip("not UTF-8")
		}
		if got := string(appendString(nil, s)); got != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
