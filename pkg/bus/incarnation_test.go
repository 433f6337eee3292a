package bus

import "testing"

func TestTheIncarnationThatAnOperatorSetsStaysAndIsChecked(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, test := range []struct {
		set  string
		good bool
	}{{"restored2", true}, {"with-dash", false}, {"Capital", false}, {"seventeenletters1", false}} {
		stream, err := b.conn.JetStream.Stream(t.Context(), b.conn.EventsStream())
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.Metadata = map[string]string{metaIncarnation: test.set}
		if _, err := b.conn.JetStream.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		err = b.Provision(t.Context(), Storage{Memory: true})
		if good := err == nil; good != test.good {
			t.Errorf("incarnation %q: got %v, want it accepted: %t", test.set, err, test.good)
		}
		if test.good && b.conn.Incarnation() != test.set {
			t.Errorf("got incarnation %q, want %q", b.conn.Incarnation(), test.set)
		}
	}
}
