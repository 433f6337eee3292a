package bus

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestConnectShowsNoPassword(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"a server that is away":  "nats://svc:S3CRETPW@127.0.0.1:1",
		"a token":                "nats://S3CRETPW@127.0.0.1:1",
		"several servers":        "nats://svc:S3CRETPW@127.0.0.1:1,nats://svc:S3CRETPW@127.0.0.1:2",
		"a port that is invalid": "nats://svc:S3CRETPW@127.0.0.1:x",
		"an invalid escape":      "nats://svc:%zzS3CRETPW@127.0.0.1:1",
	}
	for name, url := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			b, err := Connect(ctx, Options{URL: url, Name: "test"})
			if err == nil {
				b.Close()
				t.Fatal("got no error")
			}
			if text := err.Error(); strings.Contains(text, "S3CRETPW") || !strings.Contains(text, "connect to NATS at ") {
				t.Errorf("got %q, want the address without credentials", text)
			}
		})
	}
}
