package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxLine limits a message, in bytes: prompts contain images.
const MaxLine = 32 << 20

// maxRequests limits the requests of the peer that are answered at the same time.
const maxRequests = 64

// ErrClosed says that the peer has closed the connection.
var ErrClosed = errors.New("the connection is closed")

// Handler serves the peer. Its methods are called in the order of the messages, one at a time: they must return soon.
type Handler interface {
	// Request returns what answers a request. It runs in a goroutine of its own, until the connection ends or the peer
	// withdraws the request. An error that is not an *Error is reported with CodeInternal.
	Request(method string, params json.RawMessage) func(context.Context) (any, error)

	// Notification receives a notification. The next message is read when it has returned, and so the response to a
	// [Conn.Call] is delivered after the notifications before it.
	Notification(method string, params json.RawMessage)
}

// Conn is one side of a connection. Call and Notify are safe for concurrent use.
type Conn struct {
	in      io.Reader
	handler Handler

	writing sync.Mutex
	out     io.Writer

	mu      sync.Mutex
	newest  int64                         // id of the newest call
	calls   map[string]chan<- message     // those without a response, by id; nil = the connection has ended
	serving map[string]context.CancelFunc // requests of the peer, by id
	workers sync.WaitGroup
}

// NewConn returns a connection that reads messages from in and writes them to out. [Conn.Serve] runs it.
func NewConn(in io.Reader, out io.Writer, handler Handler) *Conn {
	return &Conn{in: in, out: out, handler: handler, calls: map[string]chan<- message{}, serving: map[string]context.CancelFunc{}}
}

// message is any message: a request has a method and an id, a notification a method, a response an id.
type message struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitempty"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *Error         `json:"error,omitempty"`
}

// Serve reads messages until the input ends, without an error, or ctx is done. It returns when all requests of the peer
// have been answered or cancelled. A read that blocks cannot be cancelled: when ctx is done, the goroutine that reads ends
// with its input.
func (c *Conn) Serve(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	defer c.workers.Wait()
	defer c.close()
	defer cancel()
	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- readLines(ctx, c.in, lines) }()
	for {
		select {
		case line := <-lines:
			c.receive(work, line)
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readLines sends the lines of in that are not empty.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, MaxLine)
	for scanner.Scan() {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		select {
		case lines <- bytes.Clone(line):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("read a message: it is longer than %d bytes", MaxLine)
	}
	if scanner.Err() != nil {
		return fmt.Errorf("read a message: %w", scanner.Err())
	}
	return nil
}

// close fails the calls that have no response.
func (c *Conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, response := range c.calls {
		close(response)
	}
	c.calls = nil
}

func (c *Conn) receive(ctx context.Context, line []byte) {
	if line[0] == '[' {
		c.refuse(Errorf(CodeInvalidRequest, "batches are not part of the protocol; send one message a line"))
		return
	}
	var m message
	if err := jsonv2.Unmarshal(line, &m, lenient()); err != nil {
		c.refuse(Errorf(CodeParse, "a message is not valid: %v", err))
		return
	}
	switch {
	case m.Method == methodCancelRequest:
		c.withdraw(m.Params)
	case m.Method != "" && m.ID == nil:
		c.handler.Notification(m.Method, json.RawMessage(m.Params))
	case m.Method != "":
		c.serve(ctx, m)
	case m.ID != nil:
		c.deliver(m)
	default:
		c.refuse(Errorf(CodeInvalidRequest, "a message has neither a method nor an id"))
	}
}

// refuse reports a message that has no id to answer. The peer that does not read it will not read anything else either.
func (c *Conn) refuse(e *Error) {
	_ = c.write(message{ID: jsontext.Value("null"), Error: e})
}

func (c *Conn) serve(ctx context.Context, m message) {
	id := string(m.ID)
	c.mu.Lock()
	_, twice := c.serving[id]
	full := len(c.serving) >= maxRequests
	if twice || full {
		c.mu.Unlock()
		_ = c.write(message{ID: m.ID, Error: Errorf(CodeInvalidRequest,
			"the request is not accepted: its id is that of a request without a response, or there are %d of those", maxRequests)})
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	c.serving[id] = cancel
	c.mu.Unlock()
	work := c.handler.Request(m.Method, json.RawMessage(m.Params))
	c.workers.Go(func() {
		defer cancel()
		result, err := work(ctx)
		c.mu.Lock()
		delete(c.serving, id)
		c.mu.Unlock()
		_ = c.respond(m.ID, result, err) // a peer that has closed the connection wants no response
	})
}

func (c *Conn) respond(id jsontext.Value, result any, failed error) error {
	if failed != nil {
		e, ok := errors.AsType[*Error](failed)
		if !ok {
			e = Errorf(CodeInternal, "%v", failed)
		}
		return c.write(message{ID: id, Error: e})
	}
	text, err := jsonv2.Marshal(result, lenient())
	if err != nil {
		return c.write(message{ID: id, Error: Errorf(CodeInternal, "the result cannot be encoded: %v", err)})
	}
	return c.write(message{ID: id, Result: text})
}

// withdraw cancels a request of the peer.
func (c *Conn) withdraw(params []byte) {
	p, err := Decode[struct {
		RequestID jsontext.Value `json:"requestId"`
	}](params)
	if err != nil {
		return // a notification has no response
	}
	c.mu.Lock()
	cancel := c.serving[string(p.RequestID)]
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// deliver hands a response to its call. One without a call is ignored.
func (c *Conn) deliver(m message) {
	c.mu.Lock()
	response := c.calls[string(m.ID)]
	delete(c.calls, string(m.ID))
	c.mu.Unlock()
	if response != nil {
		response <- m
	}
}

// Call sends a request and decodes its result into result, unless that is nil. If ctx ends first, it withdraws the request.
// An error of the peer is an *Error.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	response := make(chan message, 1)
	c.mu.Lock()
	if c.calls == nil {
		c.mu.Unlock()
		return fmt.Errorf("%s: %w", method, ErrClosed)
	}
	c.newest++
	id := strconv.FormatInt(c.newest, 10)
	c.calls[id] = response
	c.mu.Unlock()
	if err := c.send(method, jsontext.Value(id), params); err != nil {
		c.forget(id)
		return err
	}
	select {
	case m, open := <-response:
		if !open {
			return fmt.Errorf("%s: %w", method, ErrClosed)
		}
		return m.decode(method, result)
	case <-ctx.Done():
		c.forget(id)
		_ = c.Notify(methodCancelRequest, map[string]jsontext.Value{"requestId": jsontext.Value(id)}) // ctx's error is the one that counts
		return context.Cause(ctx)
	}
}

func (c *Conn) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

func (m message) decode(method string, result any) error {
	if m.Error != nil {
		return fmt.Errorf("%s: %w", method, m.Error)
	}
	if result == nil || len(m.Result) == 0 {
		return nil
	}
	if err := jsonv2.Unmarshal(m.Result, result, lenient()); err != nil {
		return fmt.Errorf("decode the result of %s: %w", method, err)
	}
	return nil
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error { return c.send(method, nil, params) }

func (c *Conn) send(method string, id jsontext.Value, params any) error {
	text, err := jsonv2.Marshal(params, lenient())
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	return c.write(message{ID: id, Method: method, Params: text})
}

func (c *Conn) write(m message) error {
	m.JSONRPC = "2.0"
	line, err := jsonv2.Marshal(m, lenient())
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	return nil
}
