package redact_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/redact"
)

func TestURL(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ address, want string }{
		"no credentials":       {"nats://127.0.0.1:4222", "nats://127.0.0.1:4222"},
		"user and password":    {"nats://svc:secret@host:4222", "nats://host:4222"},
		"a token":              {"nats://secret@host:4222", "nats://host:4222"},
		"no user":              {"redis://:secret@host:99x9/0", "redis://host:99x9/0"},
		"no scheme":            {"svc:secret@host:4222", "host:4222"},
		"several servers":      {"nats://a:secret@h1:1,nats://b:secret@h2:2", "nats://h1:1,nats://h2:2"},
		"one with credentials": {"nats://h1:1,nats://b:secret@h2:2", "nats://h1:1,nats://h2:2"},
		"an @ in the password": {"redis://u:sec@secret@host/0", "redis://host/0"},
		"a comma in the same":  {"redis://u:secret,secret@host/0", "host/0"},
		"a query":              {"postgres://host/db?password=secret", "postgres://host/db"},
		"nothing":              {"", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := redact.URL(test.address); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestErrorsOfAddressesThatCannotBeParsed(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"redis://:secret@host:99x9/0", "nats://svc:secret@host:port", "http://u:p%zzsecret@host", "://secret", "http://a:secret/x",
	} {
		_, err := url.Parse(address)
		if err == nil {
			t.Errorf("%q: got no error to test", address)
			continue
		}
		if text := redact.Error(err).Error(); strings.Contains(text, "secret") || text == "" {
			t.Errorf("%q: got %q, want a cause without the address", address, text)
		}
	}
}

func FuzzURL(f *testing.F) {
	f.Add("nats://", "svc", "host:4222")
	f.Add("", "a,b@c", "h1,h2")
	f.Fuzz(func(t *testing.T, before, user, host string) {
		const secret = "S3CRETPW"
		if strings.ContainsAny(before, "@,?") || strings.ContainsAny(host, "@?") || strings.Contains(before+user+host, secret) {
			return
		}
		if got := redact.URL(before + user + ":" + secret + "@" + host); strings.Contains(got, secret) {
			t.Errorf("got %q, want no password", got)
		}
	})
}
