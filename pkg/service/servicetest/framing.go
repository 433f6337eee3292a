// Package servicetest attacks HTTP servers with bytes that no client library sends.
package servicetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// attack is the bytes that a client writes to a connection: a first request, followed by one that a server may have to
// leave unread.
type attack struct {
	what    string
	headers string // of the first request, each with its line break
	body    string // of the first request
	second  bool   // the second request may be answered too, because the end of the first one is unambiguous
	valid   bool   // the first request is not refused for its framing
}

func attacks(inner string) []attack {
	const chunked = "Transfer-Encoding: chunked\r\n"
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	return []attack{
		{what: "a length and chunks", headers: length(5) + chunked, body: "0\r\n\r\n", valid: true},
		{what: "chunks and a length", headers: chunked + length(5), body: "0\r\n\r\n", valid: true},
		{what: "a length beyond the chunks", headers: length(len(inner)+5) + chunked, body: "0\r\n\r\n", valid: true},
		{what: "two different lengths", headers: length(0) + length(len(inner))},
		{what: "two different lengths in one line", headers: fmt.Sprintf("Content-Length: 0, %d\r\n", len(inner))},
		{what: "two equal lengths in one line", headers: "Content-Length: 5, 5\r\n", body: "hello"},
		{what: "two equal lengths", headers: length(5) + length(5), body: "hello", second: true, valid: true},
		{what: "two equal lengths around a request", headers: length(len(inner)) + length(len(inner)), body: inner, second: true, valid: true},
		{what: "a length with a sign", headers: "Content-Length: +5\r\n", body: "hello"},
		{what: "a negative length", headers: "Content-Length: -1\r\n"},
		{what: "a hexadecimal length", headers: "Content-Length: 0x5\r\n", body: "hello"},
		{what: "an unknown transfer encoding", headers: "Transfer-Encoding: xchunked\r\n"},
		{what: "two transfer encodings", headers: chunked + "Transfer-Encoding: identity\r\n", body: "0\r\n\r\n"},
		{what: "a space before the colon", headers: "Transfer-Encoding : chunked\r\n", body: "0\r\n\r\n"},
		{what: "a chunk with a negative size", headers: chunked, body: "-1\r\n", valid: true},
		{what: "a chunk whose size overflows", headers: chunked, body: "fffffffffffffffff\r\n", valid: true},
		{what: "a carriage return in a header", headers: "X: a\rb\r\n" + length(0)},
		{what: "NUL in a header", headers: "X: a\x00b\r\n" + length(0)},
		{what: "two hosts", headers: "Host: b\r\n" + length(0)},
	}
}

// Framing sends a POST to path whose end two servers in a row may find at different positions, in each known way,
// followed by another request. It wants at most one response, a rejection if the framing is invalid, and the end of the
// connection. Equal Content-Length fields are the exception that RFC 9112, 6.3 permits: their value counts, and the
// body contains no request.
func Framing(t *testing.T, addr, path string) {
	t.Helper()
	inner := "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for _, a := range attacks(inner) {
		t.Run(a.what, func(t *testing.T) {
			t.Parallel()
			statuses := exchange(t, addr, "POST "+path+" HTTP/1.1\r\nHost: x\r\n"+a.headers+"\r\n"+a.body+inner)
			want := 1
			if a.second {
				want = 2
			}
			if len(statuses) > want {
				t.Errorf("got the answers %v, want at most %d", statuses, want)
			}
			if !a.valid && len(statuses) > 0 && statuses[0] < http.StatusBadRequest {
				t.Errorf("got %d, want a refusal", statuses[0])
			}
		})
	}
}

// exchange writes text to a new connection, and returns the statuses of the responses until the server closes the
// connection.
func exchange(t *testing.T, addr, text string) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(in, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the connection stays open after the answers %v", statuses)
		}
		if err != nil {
			return statuses // closed, or reset with a request unread
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		statuses = append(statuses, response.StatusCode)
	}
}
