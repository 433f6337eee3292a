package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/sse"
	jsonv2 "github.com/go-json-experiment/json"
)

const (
	version       = "1.0"
	versionHeader = "A2A-Version"

	bindingRPC  = "JSONRPC"
	bindingREST = "HTTP+JSON"

	cardPath = ".well-known/agent-card.json"
	cardTTL  = 5 * time.Minute
	maxBody  = 16 << 20 // bytes of a response that is not a stream
)

// card is what is read of an agent card.
type card struct {
	Interfaces []struct {
		URL     string `json:"url"`
		Binding string `json:"protocolBinding"`
		Version string `json:"protocolVersion"`
		Tenant  string `json:"tenant"`
	} `json:"supportedInterfaces"`
	Capabilities struct {
		Streaming bool `json:"streaming"`
	} `json:"capabilities"`
}

// peer is an interface of the agent.
type peer struct {
	agent     upstream.Agent
	rpc       bool // JSON-RPC; otherwise HTTP+JSON
	tenant    string
	streaming bool
}

// named returns p with the name of the agent.
func (p *peer) named(name string) *peer {
	one := *p
	one.agent = p.agent.Named(name)
	return &one
}

// discover fetches the card of an agent and selects the first interface that this client can use.
func discover(ctx context.Context, agent upstream.Agent) (*peer, error) {
	at, err := url.Parse(agent.URL)
	if err != nil {
		return nil, agent.API().Unreachable(err)
	}
	path := cardPath
	if strings.HasSuffix(at.Path, ".json") {
		path = ""
	}
	res, err := agent.Send(ctx, upstream.Request{ //nolint:bodyclose // decode closes it
		Method: http.MethodGet, Path: path, Header: http.Header{"Accept": {"application/json"}, versionHeader: {version}},
	})
	if err != nil {
		return nil, err
	}
	var c card
	if err := decode(agent, res, &c); err != nil {
		return nil, err
	}
	return c.choose(agent, at)
}

// choose returns the first interface of version 1 whose binding this client has. It must be on the server that has the card: a card
// must not send the keys of the agent, or requests from inside a network, elsewhere.
func (c card) choose(agent upstream.Agent, at *url.URL) (*peer, error) {
	for _, i := range c.Interfaces {
		if i.Binding != bindingRPC && i.Binding != bindingREST || !strings.HasPrefix(i.Version, "1.") {
			continue
		}
		to, err := at.Parse(i.URL)
		if err != nil || i.URL == "" || to.User != nil || to.Fragment != "" {
			return nil, agent.Broke("its card has an interface at %q, which is not an address", i.URL)
		}
		if to.Scheme != at.Scheme || to.Host != at.Host {
			return nil, agent.Broke("its card has an interface at %s://%s, which is another server; write the address of that server under url", to.Scheme, to.Host)
		}
		p := &peer{agent: agent, rpc: i.Binding == bindingRPC, tenant: i.Tenant, streaming: c.Capabilities.Streaming}
		p.agent.URL = to.String()
		return p, nil
	}
	return nil, agent.Broke("its card has no interface of version 1 with the binding JSONRPC or HTTP+JSON")
}

// The methods of the protocol that this client calls.
const (
	sendMessage = "SendMessage"
	sendStream  = "SendStreamingMessage"
	subscribe   = "SubscribeToTask"
	getTask     = "GetTask"
	cancelTask  = "CancelTask"
)

// params are the parameters of a call: of a message, or of a task.
type params struct {
	Tenant   string          `json:"tenant,omitempty"`
	ID       string          `json:"id,omitempty"`
	Message  *message        `json:"message,omitzero"`
	Metadata json.RawMessage `json:"metadata,omitzero"`
}

// call calls a method and returns the response, whose body the caller closes.
func (p *peer) call(ctx context.Context, method string, with params) (*http.Response, error) {
	r := upstream.Request{Method: http.MethodPost, Header: http.Header{versionHeader: {version}, "Accept": {sse.ContentType + ", application/json"}}}
	var body any = with
	if p.rpc {
		with.Tenant = p.tenant
		body = struct {
			Version string `json:"jsonrpc"`
			ID      int    `json:"id"`
			Method  string `json:"method"`
			Params  params `json:"params"`
		}{"2.0", 1, method, with}
	} else {
		at := "tasks/" + url.PathEscape(with.ID)
		switch method {
		case sendMessage:
			r.Path = "message:send"
		case sendStream:
			r.Path = "message:stream"
		case subscribe:
			r.Method, r.Path, body = http.MethodGet, at+":subscribe", nil
		case getTask:
			r.Method, r.Path, body = http.MethodGet, at, nil
		case cancelTask:
			r.Path, body = at+":cancel", struct{}{}
		}
		if p.tenant != "" {
			r.Path = url.PathEscape(p.tenant) + "/" + r.Path
		}
	}
	if body != nil {
		text, err := jsonv2.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode a call of %s: %w", method, err)
		}
		r.Body = text
	}
	return p.agent.Send(ctx, r)
}

// updates returns a function that reads the updates of a response: a stream, or one reply.
func (p *peer) updates(res *http.Response) (func() (update, error), error) {
	if !upstream.Streams(res) {
		var one reply
		if err := decode(p.agent, res, &one); err != nil {
			return nil, err
		}
		read := false
		return func() (update, error) {
			if read {
				return update{}, p.agent.Cut(nil)
			}
			read = true
			return p.open(one)
		}, nil
	}
	stream, err := p.agent.Stream(res)
	if err != nil {
		return nil, err
	}
	return func() (update, error) {
		var r reply
		if err := stream.Decode(&r); err != nil {
			return update{}, err
		}
		return p.open(r)
	}, nil
}

// open returns the update of a reply.
func (p *peer) open(r reply) (update, error) {
	if r.Error != nil {
		return update{}, p.agent.Failed(r.Error.Message, false)
	}
	if len(r.Result) == 0 {
		return r.update, nil
	}
	var u update
	if err := jsonv2.Unmarshal(r.Result, &u); err != nil {
		return update{}, p.agent.API().Malformed(err)
	}
	return u, nil
}

// task gets a task as it is now.
func (p *peer) task(ctx context.Context, taskID string) (*task, error) {
	res, err := p.call(ctx, getTask, params{ID: taskID})
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	var text json.RawMessage
	if err := decode(p.agent, res, &text); err != nil {
		return nil, err
	}
	if p.rpc {
		var r reply
		if err := jsonv2.Unmarshal(text, &r); err != nil {
			return nil, p.agent.API().Malformed(err)
		}
		if r.Error != nil {
			return nil, p.agent.Failed(r.Error.Message, false)
		}
		text = r.Result
	}
	var t task
	if err := jsonv2.Unmarshal(text, &t); err != nil {
		return nil, p.agent.API().Malformed(err)
	}
	return &t, nil
}

// decode reads a response that is one JSON value, and closes it.
func decode(agent upstream.Agent, res *http.Response, into any) error {
	defer func() { _ = res.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		return agent.Cut(err)
	case len(body) > maxBody:
		return agent.Broke("its answer is larger than %d bytes", maxBody)
	}
	if err := jsonv2.Unmarshal(body, into); err != nil {
		if strings.HasPrefix(strings.TrimSpace(string(body)), "<") {
			return agent.API().Stranger()
		}
		return agent.API().Malformed(err)
	}
	return nil
}
