package observer

import (
	"slices"
	"testing"
)

func TestWhatIsAddedIsCounted(t *testing.T) {
	t.Parallel()
	got := added([]string{"a", "b", "gone"}, []string{"a", "b", "b", "b", "c"})
	if want := []string{"2 times b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAddressesOfProcAreRead(t *testing.T) {
	t.Parallel()
	if got := address("0100007F:1F90"); got != "127.0.0.1:8080" {
		t.Errorf("got %s, want 127.0.0.1:8080", got)
	}
}
