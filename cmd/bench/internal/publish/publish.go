// Package publish measures how fast JetStream stores messages without other work: without order within a request,
// readers and HTTP. It implements the protocol of NATS directly, to exclude the cost of a client library.
package publish

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Conn is a connection to NATS. It is for one goroutine, and ends with the context with which it was opened.
type Conn struct {
	conn  net.Conn
	in    *bufio.Reader
	out   *bufio.Writer
	inbox string
	unset func() bool
}

// Dial connects to NATS at addr. The caller must close the connection; it is also closed when ctx is done.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	c := &Conn{
		conn: conn, in: bufio.NewReaderSize(conn, 64<<10), out: bufio.NewWriterSize(conn, 64<<10),
		inbox: "_INBOX.bench." + strconv.FormatInt(time.Now().UnixNano(), 36),
	}
	c.unset = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if _, err := c.in.ReadSlice('\n'); err != nil { // INFO
		c.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	_, _ = c.out.WriteString(`CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}` + "\r\n") // as in put
	_, _ = c.out.WriteString("SUB " + c.inbox + " 1\r\n")
	return c, nil
}

// Close ends the connection.
func (c *Conn) Close() {
	c.unset()
	_ = c.conn.Close()
}

// Request sends body to subject, decodes the response into answer and returns the error that it contains.
func (c *Conn) Request(subject string, body []byte, answer any) error {
	c.put(subject, body)
	if err := c.out.Flush(); err != nil {
		return err
	}
	payload, err := c.message()
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	if err := apiError(payload); err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	return json.Unmarshal(payload, answer)
}

func apiError(payload []byte) error {
	var failure struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(payload, &failure); err != nil {
		return fmt.Errorf("read the answer %.80q: %w", payload, err)
	}
	if failure.Error != nil {
		return errors.New(failure.Error.Description)
	}
	return nil
}

// put writes one message that requires an acknowledgement.
func (c *Conn) put(subject string, body []byte) {
	var line [128]byte
	head := append(append(append(line[:0], "PUB "...), subject...), ' ')
	head = append(append(head, c.inbox...), ' ')
	head = append(strconv.AppendInt(head, int64(len(body)), 10), '\r', '\n')
	_, _ = c.out.Write(head) // bufio.Writer keeps its error for Flush
	_, _ = c.out.Write(body)
	_, _ = c.out.WriteString("\r\n")
}

// message returns the next message to the inbox. It answers pings.
func (c *Conn) message() ([]byte, error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		word, rest, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), " ")
		switch word {
		case "MSG", "HMSG":
			return c.payload(word, rest)
		case "PING":
			_, _ = c.out.WriteString("PONG\r\n") // as in put
			if err := c.out.Flush(); err != nil {
				return nil, err
			}
		case "-ERR":
			return nil, fmt.Errorf("NATS says %s", rest)
		}
	}
}

func (c *Conn) payload(word, rest string) ([]byte, error) {
	size, err := strconv.Atoi(rest[strings.LastIndexByte(rest, ' ')+1:])
	if err != nil {
		return nil, fmt.Errorf("NATS says %s %s: %w", word, rest, err)
	}
	body := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(c.in, body); err != nil {
		return nil, err
	}
	if word == "HMSG" {
		return nil, fmt.Errorf("answer with the status %s", bytes.TrimSpace(body))
	}
	return body[:size], nil
}

// Load describes the messages to store.
type Load struct {
	Stream   string // of one replica, in files; created at the start and deleted at the end
	Subjects int
	Messages int
	Size     int // bytes of a message
	Window   int // messages in flight without an acknowledgement
}

// Run stores the messages and returns the time until all were acknowledged.
func (c *Conn) Run(l Load) (time.Duration, error) {
	config, err := json.Marshal(map[string]any{
		"name": l.Stream, "subjects": []string{l.Stream + ".>"}, "storage": "file", "retention": "limits",
		"discard": "new", "num_replicas": 1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_consumers": -1,
	})
	if err != nil {
		return 0, err
	}
	var ignored struct{}
	if err := c.Request("$JS.API.STREAM.CREATE."+l.Stream, config, &ignored); err != nil {
		return 0, err
	}
	took, err := c.store(l)
	if err != nil {
		return 0, fmt.Errorf("publish to %s: %w", l.Stream, err)
	}
	return took, c.Request("$JS.API.STREAM.DELETE."+l.Stream, nil, &ignored)
}

func (c *Conn) store(l Load) (time.Duration, error) {
	subjects := make([]string, l.Subjects)
	for i := range subjects {
		subjects[i] = l.Stream + "." + strconv.Itoa(i)
	}
	body := bytes.Repeat([]byte("x"), l.Size)
	start := time.Now()
	sent := 0
	for acknowledged := range l.Messages {
		// Half a window at a time, so that messages share writes, and acknowledgements share reads.
		if sent-acknowledged <= l.Window/2 {
			for ; sent < l.Messages && sent-acknowledged < l.Window; sent++ {
				c.put(subjects[sent%len(subjects)], body)
			}
			if err := c.out.Flush(); err != nil {
				return 0, err
			}
		}
		answer, err := c.message()
		if err != nil {
			return 0, err
		}
		if !bytes.Contains(answer, []byte(`"seq"`)) {
			return 0, fmt.Errorf("message %d was refused: %s", acknowledged, answer)
		}
	}
	return time.Since(start), nil
}

// Messages returns how many messages of a stream match a filter of their subjects.
func (c *Conn) Messages(stream, filter string) (int, error) {
	body, err := json.Marshal(map[string]string{"subjects_filter": filter})
	if err != nil {
		return 0, err
	}
	var info struct {
		State struct {
			Subjects map[string]int `json:"subjects"`
		} `json:"state"`
	}
	if err := c.Request("$JS.API.STREAM.INFO."+stream, body, &info); err != nil {
		return 0, err
	}
	total := 0
	for _, n := range info.State.Subjects {
		total += n
	}
	return total, nil
}
