package acp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	protocol "github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// dialog is the requests of a turn, one after the other.
func (r *run) dialog(ctx context.Context) (backend.Outcome, error) {
	hello, err := r.initialize(ctx)
	if err != nil {
		return backend.Outcome{}, err
	}
	opened, resumed, err := r.open(ctx, hello.AgentCapabilities)
	if err != nil {
		return backend.Outcome{}, err
	}
	if err := r.selectModel(ctx, opened); err != nil {
		return backend.Outcome{}, err
	}
	before := r.session.State.Used
	var response protocol.PromptResponse
	err = r.conn.Call(ctx, protocol.MethodPrompt, protocol.PromptRequest{
		SessionID: r.session.State.ID, Prompt: blocks(r.turn, resumed, hello.AgentCapabilities.PromptCapabilities),
	}, &response)
	if err != nil {
		return backend.Outcome{}, err
	}
	outcome := backend.Outcome{Model: r.turn.Model}
	err = r.do(func() error {
		outcome.Usage = r.used(response.Usage, before)
		if err := r.finishTools(response.StopReason); err != nil {
			return err
		}
		outcome.Finish, err = r.finish(response.StopReason)
		return err
	})
	return outcome, err
}

func (r *run) initialize(ctx context.Context) (hello protocol.InitializeResponse, err error) {
	err = r.conn.Call(ctx, protocol.MethodInitialize, protocol.InitializeRequest{
		ProtocolVersion: protocol.Version, ClientInfo: &protocol.Implementation{Name: "agentbus", Version: "1"},
	}, &hello)
	if err != nil {
		return hello, err
	}
	if hello.ProtocolVersion != protocol.Version {
		return hello, apierr.New(apierr.AgentError, "%s speaks version %d of the Agent Client Protocol, agentbus version %d; update the older one",
			r.session.backend.name(), hello.ProtocolVersion, protocol.Version)
	}
	if hello.AgentInfo != nil {
		r.model = hello.AgentInfo.Name
	}
	if method := r.session.backend.options.Auth; method != "" {
		err = r.conn.Call(ctx, protocol.MethodAuthenticate, protocol.AuthenticateRequest{MethodID: method}, nil)
	}
	return hello, err
}

// open opens the session of the state, or a new one. A session that the program cannot open is replaced by a new one.
func (r *run) open(ctx context.Context, can protocol.AgentCapabilities) (opened protocol.SessionResponse, resumed bool, err error) {
	if r.session.State.ID != "" {
		method := protocol.MethodLoad
		switch {
		case can.SessionCapabilities.Resume != nil:
			method = protocol.MethodResume
		case !can.LoadSession:
			method = ""
		}
		if opened, resumed, err = r.reopen(ctx, method); resumed || err != nil {
			return opened, resumed, err
		}
	}
	err = r.conn.Call(ctx, protocol.MethodNew, protocol.NewRequest{CWD: r.session.Dir}, &opened)
	if err != nil {
		return opened, false, err
	}
	if opened.SessionID == "" {
		return opened, false, apierr.New(apierr.AgentError, "%s has opened a session without an id", r.session.backend.name())
	}
	return opened, false, r.do(func() error {
		r.session.State = backend.State{ID: opened.SessionID}
		return nil
	})
}

// reopen opens the session of the state by a method; "" = the program has none.
func (r *run) reopen(ctx context.Context, method string) (opened protocol.SessionResponse, resumed bool, err error) {
	if method != "" {
		r.replay(true)
		err = r.conn.Call(ctx, method, protocol.SessionRequest{
			SessionID: r.session.State.ID, CWD: r.session.Dir, MCPServers: []json.RawMessage{},
		}, &opened)
		r.replay(false)
		if err == nil {
			return opened, true, nil
		}
		if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Code == protocol.CodeAuthRequired {
			return opened, false, err
		}
	}
	lost := r.session.backend.name() + " cannot open its session again; it gets the whole conversation"
	return opened, false, r.do(func() error { return r.say(backend.Warning(lost)) })
}

// replay notes whether the program repeats what the session has seen.
func (r *run) replay(on bool) {
	_ = r.do(func() error { // fails when the turn is over
		r.replaying = on
		return nil
	})
}

// selectModel selects the model of the turn, where the program lets its clients do that.
func (r *run) selectModel(ctx context.Context, opened protocol.SessionResponse) error {
	i := slices.IndexFunc(opened.ConfigOptions, func(o protocol.ConfigOption) bool { return o.Category == "model" || o.ID == "model" })
	if i < 0 {
		if r.turn.Model == "" {
			return nil
		}
		return r.do(func() error {
			return r.say(backend.Warning(r.session.backend.name() + " does not let its clients select a model; it uses its own"))
		})
	}
	option := opened.ConfigOptions[i]
	if r.turn.Model == "" || r.turn.Model == option.CurrentValue {
		r.model = option.CurrentValue
		return nil
	}
	names := make([]string, 0, len(option.Options))
	for _, v := range option.Options {
		names = append(names, v.Value)
	}
	if !slices.Contains(names, r.turn.Model) {
		return apierr.New(apierr.AgentError, "%s has no model %q; it has %q", r.session.backend.name(), r.turn.Model, names)
	}
	value, err := jsonv2.Marshal(r.turn.Model)
	if err != nil {
		return err
	}
	return r.conn.Call(ctx, protocol.MethodSetOption, protocol.SetOptionRequest{
		SessionID: r.session.State.ID, ConfigID: option.ID, Value: value,
	}, nil)
}

// finish is the end of the turn. A turn that waits for the user ends with an approval for each call.
func (r *run) finish(reason protocol.StopReason) (event.FinishReason, error) {
	if len(r.asked) > 0 {
		return event.FinishToolCalls, permission.Pose(r.say, r.asked)
	}
	switch reason {
	case protocol.StopMaxTokens:
		return event.FinishLength, nil
	case protocol.StopMaxTurnRequests:
		return event.FinishMaxTurns, nil
	case protocol.StopRefusal:
		return event.FinishContentFilter, nil
	case protocol.StopCancelled:
		return "", retryable(apierr.New(apierr.AgentError, "%s has cancelled its turn; try again", r.session.backend.name()))
	default:
		return event.FinishStop, nil
	}
}

// used returns the usage of the turn: tokens where the response has them, and the cost that the session has grown by.
func (r *run) used(u *protocol.Usage, before event.Usage) event.Usage {
	used := event.Usage{CostUSD: r.cost}
	if r.cost >= before.CostUSD { // otherwise the program has reset its count
		used.CostUSD -= before.CostUSD
	}
	if u != nil {
		used.InputTokens, used.OutputTokens = u.InputTokens, u.OutputTokens
		used.CachedInputTokens, used.ReasoningTokens = u.CachedReadTokens, u.ThoughtTokens
	}
	r.session.State.Used = before.Add(used)
	return used
}
