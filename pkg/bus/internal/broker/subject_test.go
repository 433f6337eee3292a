package broker

import "testing"

func TestSubjectsTakeOnlyTokens(t *testing.T) {
	t.Parallel()
	b := &Conn{Prefix: "p"}
	if s, err := b.Subject(KindEvent, "t", "req_1"); s != "p.event.t.req_1" || err != nil {
		t.Fatalf("got %q (%v)", s, err)
	}
	if got := b.Live("p.event.t.r"); got != "p.live.event.t.r" {
		t.Fatalf("got %q", got)
	}
	for _, bad := range []string{"", "*", ">", "a.b", "a ", "é", "a\x00"} {
		if s, err := b.Subject(KindEvent, bad); err == nil {
			t.Errorf("token %q gave %q, want an error", bad, s)
		}
	}
}

func FuzzSubject(f *testing.F) {
	for _, seed := range []string{"req_1", "*", "a.b", "$JS.API.STREAM.DELETE.EVENTS", "a b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		b := &Conn{Prefix: "p"}
		s, err := b.Subject(KindEvent, "tenant", token)
		if err != nil {
			return
		}
		if kind, rest := b.Tokens(s); kind != KindEvent || len(rest) != 2 || rest[1] != token {
			t.Fatalf("token %q gave subject %q", token, s)
		}
	})
}
