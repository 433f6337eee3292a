package event_test

import (
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestPackedNamesAreShortAndComeBack(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		names  []event.Name
		packed string
	}{
		{"one name is itself", []event.Name{"claim"}, "claim"},
		{"a run is counted", []event.Name{"text", "text", "text"}, "text*3"},
		{"runs are in order", []event.Name{"text", "text", "usage", "text"}, "text*2,usage,text"},
		{"a name of a newer build is a name", []event.Name{"claim", "from-tomorrow"}, "claim,from-tomorrow"},
		{"a long frame is short", slices.Repeat([]event.Name{"text"}, 4096), "text*4096"},
	}
	for _, tt := range tests {
		if got := event.PackNames(tt.names); got != tt.packed {
			t.Errorf("%s: packed as %.80q, want %q", tt.name, got, tt.packed)
		}
		if got, err := event.UnpackNames(tt.packed); err != nil || !slices.Equal(got, tt.names) {
			t.Errorf("%s: unpacked as %.80q, %v", tt.name, got, err)
		}
	}
}

func TestInvalidPackedNames(t *testing.T) {
	t.Parallel()
	for name, packed := range map[string]string{
		"nothing":                 "",
		"an empty name":           "text,,text",
		"an empty name in a run":  "*3",
		"a run of one":            "text*1",
		"a run of none":           "text*0",
		"a run of less than none": "text*-2",
		"a run of no number":      "text*x",
		"a run of runs":           "text*2*2",
		"a comma at the end":      "text,",
		"more than a frame holds": "text*65537",
		"more in several runs":    "text*65536,done",
		"a number that overflows": "text*99999999999999999999",
		"the largest number":      "text*2,text*9223372036854775807",
	} {
		if got, err := event.UnpackNames(packed); err == nil {
			t.Errorf("%s: unpacked as %d names, want an error", name, len(got))
		}
	}
}

func FuzzUnpackNames(f *testing.F) {
	for _, seed := range []string{"", "text", "claim,text*12,done", "a*2,a*3", ",", "*", "text*65536", "x*02"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, packed string) {
		names, err := event.UnpackNames(packed)
		if err != nil {
			return
		}
		again, err := event.UnpackNames(event.PackNames(names))
		if err != nil || !slices.Equal(again, names) {
			t.Errorf("%q is %d names, and packed again %d (%v)", packed, len(names), len(again), err)
		}
	})
}
