package testcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// awaitGap is the time between two attempts of [Await].
const awaitGap = 20 * time.Millisecond

// Await calls try until it returns nil or ctx is done. Its error contains the newest error of try and the cause of the end
// of ctx.
func Await(ctx context.Context, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(awaitGap):
		}
	}
}

// Answers returns a check that GET url returns 200.
func Answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close() // the status is all that counts
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s returns %s", url, response.Status)
		}
		return nil
	}
}

// AskRedis sends a command without arguments to the Redis server at addr, and returns an error if the response does not
// begin with want.
func AskRedis(ctx context.Context, addr, command, want string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the response was read
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "*1\r\n$%d\r\n%s\r\n", len(command), command); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), want) {
		return errors.Join(fmt.Errorf("redis responds to %s with %q", command, answer[:n]), err)
	}
	return nil
}
