package a2a

import (
	"context"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/agentbus/agentbus/services/gateway/internal/webhook"
)

var _ webhook.Tasks = (*Server)(nil)

// pushRPC serves the methods about push notifications of the JSON-RPC binding.
func (s *Server) pushRPC(c call, in wire.Call) error {
	defer c.WithTimeout()()
	if in.Method == "CreateTaskPushNotificationConfig" {
		p, err := wire.DecodePush(in.Params)
		if err != nil {
			return err
		}
		return s.createPush(c, p)
	}
	q, err := wire.DecodePushQuery(in.Params)
	if err != nil {
		return err
	}
	switch in.Method {
	case "GetTaskPushNotificationConfig":
		return s.replyPush(c, q)
	case "ListTaskPushNotificationConfigs":
		return s.replyPushes(c, q.TaskID)
	default:
		return s.removePush(c, q)
	}
}

// postPush creates a receiver by the HTTP+JSON binding.
func (s *Server) postPush(c call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	p, err := wire.DecodePush(body)
	if err != nil {
		return err
	}
	if taskID := c.Param("taskId"); p.TaskID == "" {
		p.TaskID = taskID
	} else if p.TaskID != taskID {
		return apierr.New(apierr.InvalidMessageFormat, "taskId is not that of the path; leave it out")
	}
	return s.createPush(c, p)
}

func (s *Server) getPush(c call) error {
	return s.replyPush(c, wire.PushQuery{TaskID: c.Param("taskId"), ID: c.Param("configId")})
}

func (s *Server) listPushes(c call) error { return s.replyPushes(c, c.Param("taskId")) }

func (s *Server) deletePush(c call) error {
	return s.removePush(c, wire.PushQuery{TaskID: c.Param("taskId"), ID: c.Param("configId")})
}

// checkPush returns an error if notifications cannot be sent to a receiver.
func (s *Server) checkPush(p wire.PushConfig) error {
	if err := p.Check(); err != nil {
		return err
	}
	return s.Pushes.CheckURL(p.URL)
}

// createPush adds a receiver to a task that has not ended.
func (s *Server) createPush(c call, p wire.PushConfig) error {
	if err := mayRun(c.Exchange); err != nil {
		return err
	}
	if err := s.checkPush(p); err != nil {
		return err
	}
	t, err := s.open(c, p.TaskID)
	if err != nil {
		return err
	}
	t.close()
	if t.State().IsTerminal() {
		return wire.Unsupported.New("the task has ended; there is nothing to notify of")
	}
	added, err := s.addPush(c, t.id, p, t.State(), t.RequestID())
	if err != nil {
		return err
	}
	return c.reply(added)
}

// addPush adds a receiver to a task that was in a state, which its newest request had caused. If the task has stopped or ended
// since then, the end of its request may have been handled before the receiver existed, and the notification is queued here.
func (s *Server) addPush(c call, taskID string, p wire.PushConfig, was wire.State, requestID string) (wire.PushConfig, error) {
	p.TaskID = taskID
	if p.ID == "" {
		p.ID = taskID
	}
	r, err := s.find(c.viewer(), taskID)
	if err != nil {
		return p, err
	}
	push := bus.TaskPush{ID: p.ID, TaskID: taskID, AgentID: c.agentID, Owner: c.Principal().Subject, URL: p.URL, Token: p.Token}
	if p.Authentication != nil {
		push.Scheme, push.Credentials = p.Authentication.Scheme, p.Authentication.Credentials
	}
	if err := s.Pushes.Add(c.Context(), r.Tenant, r.ThreadID, push); err != nil {
		return p, authz.Unavailable(err)
	}
	v := c.viewer()
	v.stateOnly = true
	now, err := s.openFor(v, taskID)
	if err != nil {
		return p, err
	}
	now.close()
	stopped := now.State().IsTerminal() || now.State() == wire.StateInputRequired
	if stopped && (now.State() != was || now.RequestID() != requestID) {
		last := record.Accepted{Tenant: r.Tenant, RequestID: now.RequestID(), ThreadID: r.ThreadID}
		if err := s.Pushes.Queue(c.Context(), push, last); err != nil {
			return p, authz.Unavailable(err)
		}
	}
	return p, nil
}

// pushesOf returns the receivers of a task.
func (s *Server) pushesOf(c call, taskID string) ([]bus.TaskPush, error) {
	r, err := s.find(c.viewer(), taskID)
	if err != nil {
		return nil, err
	}
	all, err := s.Pushes.List(c.Context(), r.Tenant, r.ThreadID, taskID)
	if err != nil {
		return nil, authz.Unavailable(err)
	}
	return all, nil
}

func (s *Server) replyPush(c call, q wire.PushQuery) error {
	if !id.Valid(q.ID) {
		return noPush(q)
	}
	all, err := s.pushesOf(c, q.TaskID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(p bus.TaskPush) bool { return p.ID == q.ID })
	if i < 0 {
		return noPush(q)
	}
	return c.reply(pushConfig(all[i]))
}

func (s *Server) replyPushes(c call, taskID string) error {
	all, err := s.pushesOf(c, taskID)
	if err != nil {
		return err
	}
	page := wire.PushPage{Configs: make([]wire.PushConfig, 0, len(all))}
	for _, p := range all {
		page.Configs = append(page.Configs, pushConfig(p))
	}
	return c.reply(page)
}

func (s *Server) removePush(c call, q wire.PushQuery) error {
	if err := mayRun(c.Exchange); err != nil {
		return err
	}
	if !id.Valid(q.ID) {
		return noPush(q)
	}
	r, err := s.find(c.viewer(), q.TaskID)
	if err != nil {
		return err
	}
	found, err := s.Pushes.Remove(c.Context(), r.Tenant, r.ThreadID, q.TaskID, q.ID)
	if err != nil {
		return authz.Unavailable(err)
	}
	if !found {
		return noPush(q)
	}
	return c.reply(struct{}{})
}

func noPush(q wire.PushQuery) error {
	return apierr.New(apierr.RequestNotFound, "the task has no push notification configuration %.64q", q.ID)
}

func pushConfig(p bus.TaskPush) wire.PushConfig {
	c := wire.PushConfig{ID: p.ID, TaskID: p.TaskID, URL: p.URL, Token: p.Token}
	if p.Scheme != "" {
		c.Authentication = &wire.Authentication{Scheme: p.Scheme, Credentials: p.Credentials}
	}
	return c
}

// Notification implements [webhook.Tasks]: the task as it is now, if the request belongs to it, or has ended it while it waited.
func (s *Server) Notification(ctx context.Context, push bus.TaskPush, d record.Delivery) (webhook.Notification, error) {
	v := viewer{
		ctx: ctx, principal: auth.Principal{Tenant: d.Tenant, Subject: push.Owner}, agentID: push.AgentID,
		pace:  func(f stream.Frames) stream.Frames { return f },
		audit: func(string, string, error) {},
	}
	t, err := s.openFor(v, push.TaskID)
	if apierr.CodeOf(err) == apierr.MessageTooLarge {
		v.stateOnly = true
		t, err = s.openFor(v, push.TaskID)
	}
	if code := apierr.CodeOf(err); code == apierr.RequestNotFound || code == apierr.ThreadNotFound {
		return webhook.Notification{Final: true}, nil // it was deleted
	}
	if err != nil {
		return webhook.Notification{}, err
	}
	t.close()
	n := webhook.Notification{Final: t.State().IsTerminal()}
	if !slices.Contains(t.Requests(), d.RequestID) && t.supersededBy != d.RequestID {
		return n, nil
	}
	n.Body, n.ContentType = wire.EncodeNotification(t.Task()), wire.MediaType
	n.Header = http.Header{"A2a-Version": {wire.Version}}
	if push.Token != "" {
		n.Header.Set("X-A2A-Notification-Token", push.Token)
	}
	if push.Scheme != "" {
		n.Header.Set("Authorization", push.Scheme+" "+push.Credentials)
	}
	return n, nil
}
