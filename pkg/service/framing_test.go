package service_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/service"
)

func TestARequestWithALengthAndChunksIsTheLastOfItsConnection(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(service.CloseChunked(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})))
	defer s.Close()
	const second = "GET /second HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, first := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, first+second); err != nil {
			t.Fatal(err)
		}
		answers, err := io.ReadAll(bufio.NewReader(conn)) // it may be reset: the second request stays unread
		if n := strings.Count(string(answers), "HTTP/1.1 "); n != 1 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q and another: got %d answers, %v; want one and the end of the connection", first, n, err)
		}
		_ = conn.Close()
	}
}
