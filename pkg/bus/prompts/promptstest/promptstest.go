// Package promptstest is a client of the Synadia Agent Protocol 0.3, written from its description, for tests.
package promptstest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// patience is how long a test waits for a message.
const patience = 20 * time.Second

// Client is a client of agents. It is for one goroutine.
type Client struct {
	t    testing.TB
	conn *nats.Conn
}

// Connect connects to a broker until the test ends.
func Connect(t testing.TB, url string) *Client {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &Client{t, conn}
}

// Discover returns the services of an agent, as soon as there are as many instances.
func (c *Client) Discover(agent string, instances int) []micro.Info {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		found := c.discover(agent)
		if len(found) == instances {
			return found
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("got %d instances of %s, want %d", len(found), agent, instances)
		}
	}
}

func (c *Client) discover(agent string) []micro.Info {
	c.t.Helper()
	inbox := c.conn.NewInbox()
	replies, err := c.conn.SubscribeSync(inbox)
	if err == nil {
		err = c.conn.PublishRequest("$SRV.INFO.agents", inbox, nil)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = replies.Unsubscribe() }()
	var found []micro.Info
	for {
		m, err := replies.NextMsg(200 * time.Millisecond)
		if err != nil {
			return found
		}
		var info micro.Info
		if json.Unmarshal(m.Data, &info) == nil && info.Metadata["agent"] == agent {
			found = append(found, info)
		}
	}
}

// Subject returns the subject of an endpoint of an agent, as discovery gives it.
func (c *Client) Subject(agent, endpoint string) string {
	c.t.Helper()
	for _, e := range c.Discover(agent, 1)[0].Endpoints {
		if e.Name == endpoint {
			return e.Subject
		}
	}
	c.t.Fatalf("%s has no endpoint %s", agent, endpoint)
	return ""
}

// Chunk is a part of a response, its error, or its end.
type Chunk struct {
	Type   string         `json:"type"`
	Data   jsontext.Value `json:"data"`
	Header nats.Header    `json:"-"`
	Body   []byte         `json:"-"`
}

// IsEnd reports whether the response has ended.
func (c Chunk) IsEnd() bool { return len(c.Body) == 0 && len(c.Header) == 0 }

// Text is the data of a chunk that is a text.
func (c Chunk) Text() string {
	var text string
	if json.Unmarshal(c.Data, &text) != nil {
		return ""
	}
	return text
}

// String describes a chunk.
func (c Chunk) String() string {
	switch {
	case c.IsEnd():
		return "end"
	case len(c.Header) > 0:
		return "error " + c.Header.Get("Nats-Service-Error-Code")
	case c.Text() != "":
		return c.Type + " " + c.Text()
	}
	return c.Type
}

// Stream is the response to a prompt.
type Stream struct {
	client *Client
	sub    *nats.Subscription
}

// Prompt sends a prompt, with headers as names and values.
func (c *Client) Prompt(subject, body string, headers ...string) *Stream {
	c.t.Helper()
	m := &nats.Msg{Subject: subject, Reply: c.conn.NewInbox(), Data: []byte(body), Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	sub, err := c.conn.SubscribeSync(m.Reply)
	if err == nil {
		err = c.conn.PublishMsg(m)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return &Stream{c, sub}
}

// Next waits for a chunk.
func (s *Stream) Next() Chunk {
	s.client.t.Helper()
	m, err := s.sub.NextMsg(patience)
	if err != nil {
		s.client.t.Fatalf("next chunk: %v", err)
	}
	c := Chunk{Header: m.Header, Body: m.Data}
	if len(m.Header) == 0 && len(m.Data) > 0 {
		if err := json.Unmarshal(m.Data, &c); err != nil {
			s.client.t.Fatalf("chunk %q: %v", m.Data, err)
		}
	}
	return c
}

// Until reads chunks up to the first one of a type, "end" or "error". It returns the text of the responses before it.
func (s *Stream) Until(kind string) (text string, last Chunk) {
	s.client.t.Helper()
	for {
		last = s.Next()
		if first, _, _ := strings.Cut(last.String(), " "); first == kind {
			return text, last
		}
		if last.IsEnd() {
			s.client.t.Fatalf("the response ended after %q, want a chunk %s", text, kind)
		}
		if last.Type == "response" {
			text += last.Text()
		}
	}
}

// Answer answers a query.
func (s *Stream) Answer(query Chunk, text string) {
	s.client.t.Helper()
	var q struct {
		Reply string `json:"reply_subject"`
	}
	if err := json.Unmarshal(query.Data, &q); err != nil || q.Reply == "" {
		s.client.t.Fatalf("query %s: %v", query.Data, err)
	}
	if err := s.client.conn.Publish(q.Reply, []byte(text)); err != nil {
		s.client.t.Fatal(err)
	}
}

// Leave ends the subscription to the response: the protocol has no other way to cancel.
func (s *Stream) Leave() {
	if err := s.sub.Unsubscribe(); err != nil {
		s.client.t.Fatal(err)
	}
}

// Request sends a request and returns the response.
func (c *Client) Request(subject, body string) []byte {
	c.t.Helper()
	m, err := c.conn.Request(subject, []byte(body), patience)
	if err != nil {
		c.t.Fatal(err)
	}
	return m.Data
}

// Subscribe returns a function that waits for the next message on a subject.
func (c *Client) Subscribe(subject string) func() []byte {
	c.t.Helper()
	sub, err := c.conn.SubscribeSync(subject)
	if err != nil {
		c.t.Fatal(err)
	}
	return func() []byte {
		c.t.Helper()
		m, err := sub.NextMsg(patience)
		if err != nil {
			c.t.Fatalf("wait for a message on %s: %v", subject, err)
		}
		return m.Data
	}
}

// Publish sends a message with a reply subject.
func (c *Client) Publish(subject, reply, body string) {
	c.t.Helper()
	if err := c.conn.PublishRequest(subject, reply, []byte(body)); err != nil {
		c.t.Fatal(fmt.Errorf("publish: %w", err))
	}
}
