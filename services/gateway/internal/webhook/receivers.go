package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// receiver is a webhook of the configuration.
type receiver struct {
	config.Receiver
	signing *standardwebhooks.Webhook
}

// openReceivers returns the webhooks of the configuration with their keys.
func openReceivers(all map[string]config.Receiver, secret func(name string) (string, error)) (map[string]receiver, error) {
	opened := make(map[string]receiver, len(all))
	for name, r := range all {
		if secret == nil {
			return nil, fmt.Errorf("gateway.webhooks.receivers.%s: the process has no secrets", name)
		}
		key, err := secret(r.SigningKeyEnv)
		if err != nil {
			return nil, fmt.Errorf("gateway.webhooks.receivers.%s.signingKeyEnv: %w", name, err)
		}
		signing, err := standardwebhooks.NewWebhook(key)
		if err != nil {
			return nil, fmt.Errorf("gateway.webhooks.receivers.%s.signingKeyEnv: the key in %s is not whsec_ and base64", name, r.SigningKeyEnv)
		}
		opened[name] = receiver{r, signing}
	}
	return opened, nil
}

// wants reports whether a webhook is notified of the end of a request.
func (r receiver) wants(a record.Accepted) bool {
	return (len(r.Tenants) == 0 || slices.Contains(r.Tenants, a.Tenant)) && (len(r.Agents) == 0 || slices.Contains(r.Agents, a.AgentID))
}

// queueReceivers queues the deliveries to the webhooks of the configuration.
func (n *Notifier) queueReceivers(ctx context.Context, a record.Accepted) error {
	for name, r := range n.receivers {
		if !r.wants(a) {
			continue
		}
		d := record.Delivery{
			ID: id.Derive("msg", a.Tenant, a.RequestID, name), Tenant: a.Tenant, WebhookID: name,
			RequestID: a.RequestID, ThreadID: a.ThreadID, At: n.Bus.Now().UTC(),
		}
		if err := n.Pushes.put(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// report is the body of a notification.
type report struct {
	Type      string     `json:"type"`
	Timestamp time.Time  `json:"timestamp"` // when the request ended
	Data      reportData `json:"data"`
}

type reportData struct {
	Tenant       string             `json:"tenant"`
	RequestID    string             `json:"requestId"`
	ThreadID     string             `json:"threadId"`
	AgentID      string             `json:"agentId"`
	Owner        string             `json:"owner"`
	FinishReason event.FinishReason `json:"finishReason,omitempty"` // of request.done and action.opened
	Usage        *event.Usage       `json:"usage,omitempty"`
	Error        *reportError       `json:"error,omitempty"`   // of request.error
	Reason       string             `json:"reason,omitempty"`  // of request.aborted
	Actions      []reportAction     `json:"actions,omitempty"` // of action.opened
}

type reportError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

type reportAction struct {
	ActionID  string                 `json:"actionId"`
	Kind      event.ContinuationKind `json:"kind"`
	Tool      string                 `json:"tool,omitempty"`
	Question  string                 `json:"question,omitempty"`
	ExpiresAt time.Time              `json:"expiresAt,omitzero"`
}

// add adds what an event contributes to the report, and reports whether it was the end of the request.
func (r *report) add(e event.Event) (end bool) {
	switch b := e.Body.(type) {
	case event.Continuation:
		r.Data.Actions = append(r.Data.Actions, reportAction{b.ActionID, b.Kind, b.Payload.Tool, b.Payload.Question, b.ExpiresAt})
		return false
	case event.Done:
		r.Type, r.Data.FinishReason, r.Data.Usage = config.HookDone, b.FinishReason, &b.Usage
		if b.FinishReason == event.FinishActionRequired {
			r.Type = config.HookOpened
		} else {
			r.Data.Actions = nil
		}
	case event.Error:
		r.Type, r.Data.Usage = config.HookError, b.Usage
		r.Data.Error, r.Data.Actions = &reportError{string(b.Code), b.Message, b.Retryable}, nil
	case event.Aborted:
		r.Type, r.Data.Reason, r.Data.Usage, r.Data.Actions = config.HookAborted, b.Reason, b.Usage, nil
	default:
		return false
	}
	r.Timestamp = e.Time.UTC()
	return true
}

// reportOf returns the report about a request that has ended; found is false if its log has expired.
func (n *Notifier) reportOf(ctx context.Context, d record.Delivery) (r report, found bool, err error) {
	log := bus.LogID{Tenant: d.Tenant, RequestID: d.RequestID}
	a, err := n.Bus.Accepted(ctx, log)
	if errors.Is(err, bus.ErrNotFound) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	r.Data = reportData{Tenant: d.Tenant, RequestID: d.RequestID, ThreadID: d.ThreadID, AgentID: a.AgentID, Owner: a.Owner}
	for f, err := range n.Bus.Read(ctx, log, 0) {
		if err != nil {
			return r, false, err
		}
		if !slices.ContainsFunc(f.Names, func(name event.Name) bool { return name == event.NameContinuation || name.IsTerminal() }) {
			continue
		}
		events, err := f.Events()
		if err != nil {
			return r, false, err
		}
		if slices.ContainsFunc(events, r.add) {
			return r, true, nil
		}
	}
	return r, false, nil
}

// report returns the notification of a webhook of the configuration; without a body none is due.
func (n *Notifier) report(ctx context.Context, to receiver, d record.Delivery) (Notification, error) {
	r, found, err := n.reportOf(ctx, d)
	if err != nil || !found || len(to.Events) > 0 && !slices.Contains(to.Events, r.Type) {
		return Notification{}, err
	}
	body, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return Notification{}, err
	}
	now := time.Now()
	signature, err := to.signing.Sign(d.ID, now, body)
	if err != nil {
		return Notification{}, fmt.Errorf("sign notification %s: %w", d.ID, err)
	}
	header := http.Header{}
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return Notification{Body: body, ContentType: "application/json", Header: header}, nil
}
