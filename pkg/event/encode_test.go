package event

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
		s := rapid.OneOf(
			rapid.String(), rapid.StringMatching(`[ -~]*[\x00-\xff]?`),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), // not always UTF-8
		).Draw(t, "string")
		want, err := json.Marshal(s, wire, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendString(nil, s)); got != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
