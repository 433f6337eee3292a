package id_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/id"
)

// attacks are identifiers from outside that must never reach a subject.
func attacks() map[string]string {
	return map[string]string{
		"nothing":                   "",
		"a dot":                     ".",
		"two tokens":                "a.b",
		"an empty token":            "a..b",
		"a wildcard":                "*",
		"a wildcard for the rest":   ">",
		"a token and the rest":      "a.>",
		"a space":                   "a b",
		"a tab":                     "a\tb",
		"a protocol command":        "a\r\nPUB x 0\r\n\r\n",
		"NUL":                       "a\x00b",
		"an escaped NUL":            "a%00b",
		"an escaped path":           "%2e%2e%2f",
		"a path":                    "../../etc/passwd",
		"a JetStream API":           "$JS.API.STREAM.DELETE.EVENTS",
		"the system account":        "$SYS.>",
		"an inbox":                  "_INBOX.>",
		"one character too many":    strings.Repeat("a", 65),
		"too long for a connection": strings.Repeat("a", 5000),
		"a megabyte":                strings.Repeat("a", 1<<20),
		"a letter with an accent":   "é",
		"a combining accent":        "e\u0301",
		"a zero-width space":        "a\u200bb",
		"a bidi override":           "a\u202eb",
		"an emoji":                  "🙂",
		"a full-width letter":       "Ａ",
		"invalid UTF-8":             "a\xffb",
		"a query":                   `{"$ne":1}`,
		"SQL":                       "' OR 1=1--",
		"a look-up":                 "${jndi:ldap://x}",
		"a template":                "{{7*7}}",
		"a line break at the end":   "abc\n",
	}
}

func TestAttacksAreInvalid(t *testing.T) {
	t.Parallel()
	for name, s := range attacks() {
		if id.Valid(s) {
			t.Errorf("%s: %.40q is valid", name, s)
		}
	}
}

func TestOrdinaryIDsAreValid(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a", "A", "0", "_", "-", "req-1", "null", "b0", id.New(id.Request), strings.Repeat("z", id.MaxLength)} {
		if !id.Valid(s) {
			t.Errorf("%q is invalid", s)
		}
	}
}

func TestNewIDsSortByTime(t *testing.T) {
	t.Parallel()
	var ids []string
	for range 1000 {
		ids = append(ids, id.New(id.Thread))
	}
	if !slices.IsSorted(ids) {
		t.Error("an id made later sorts earlier")
	}
	if len(slices.Compact(ids)) != 1000 {
		t.Error("an id came twice")
	}
}

func TestNewIDsDifferBetweenGoroutines(t *testing.T) {
	t.Parallel()
	var (
		group sync.WaitGroup
		seen  sync.Map
	)
	for range 8 {
		group.Go(func() {
			for range 1000 {
				if _, twice := seen.LoadOrStore(id.New(id.Call), true); twice {
					t.Error("an id came twice")
				}
			}
		})
	}
	group.Wait()
}

func TestDerivedIDs(t *testing.T) {
	t.Parallel()
	base := id.Derive(id.Request, "tenant", "key")
	if again := id.Derive(id.Request, "tenant", "key"); again != base {
		t.Errorf("the same parts gave %s and %s", base, again)
	}
	if want := "req_"; !strings.HasPrefix(base, want) || !id.Valid(base) || len(base) != len(want)+26 {
		t.Errorf("%q is not of the form of a new id", base)
	}
	others := map[string]string{
		"another prefix":            id.Derive(id.Thread, "tenant", "key"),
		"other parts":               id.Derive(id.Request, "tenant", "other"),
		"parts cut elsewhere":       id.Derive(id.Request, "tenantk", "ey"),
		"one part instead of two":   id.Derive(id.Request, "tenantkey"),
		"an empty part more":        id.Derive(id.Request, "tenant", "key", ""),
		"parts in another order":    id.Derive(id.Request, "key", "tenant"),
		"no parts":                  id.Derive(id.Request),
		"a part that holds the cut": id.Derive(id.Request, "tenant\x00key\x00x"),
	}
	for name, other := range others {
		if other == base {
			t.Errorf("%s: gave the same id", name)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, s := range attacks() {
		if len(s) < 100 {
			f.Add(s)
		}
	}
	f.Add("req_1")
	contract := regexp.MustCompile(`\A[A-Za-z0-9_-]{1,64}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := id.Valid(s), contract.MatchString(s); got != want {
			t.Errorf("Valid(%q) is %v, want %v", s, got, want)
		}
	})
}

func TestDeriveUUID(t *testing.T) {
	t.Parallel()
	one := id.DeriveUUID("a", "b")
	if one != id.DeriveUUID("a", "b") || one == id.DeriveUUID("ab") || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(one) {
		t.Errorf("got %q, want a UUID that belongs to its parts", one)
	}
}
