package gateway_test

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

func (a *archive) thread(question []byte) (any, error) {
	q, err := decode[historyapi.ThreadRef](question)
	if err != nil {
		return nil, err
	}
	for _, t := range a.threads {
		if t.ThreadID == q.ThreadID && q.Tenant == "default" {
			return t, nil
		}
	}
	return nil, apierr.New(apierr.ThreadNotFound, "no such thread")
}

func (a *archive) request(question []byte) (any, error) {
	q, err := decode[historyapi.RequestRef](question)
	if err != nil {
		return nil, err
	}
	for _, r := range a.requests {
		if r.RequestID == q.RequestID && q.Tenant == "default" {
			return r, nil
		}
	}
	return nil, apierr.New(apierr.RequestNotFound, "no such request")
}

func (a *archive) kept(question []byte) (any, error) {
	q, err := decode[historyapi.KeptQuery](question)
	if err != nil {
		return nil, err
	}
	for _, r := range a.requests {
		if slices.Contains(q.RequestIDs, r.RequestID) && q.Tenant == "default" {
			return historyapi.Kept{Request: &r, BodyHash: a.hash}, nil
		}
	}
	return historyapi.Kept{}, nil
}

func (a *archive) open(question []byte) (any, error) {
	q, err := decode[historyapi.OpenQuery](question)
	page := historyapi.OpenPage{Requests: []historyapi.OpenRequest{}}
	for _, r := range a.runs {
		if r.Tenant == q.Tenant {
			page.Requests = append(page.Requests, r)
		}
	}
	return page, err
}

// page gives one frame a page, so that paging is used.
func (a *archive) page(question []byte) (any, error) {
	q, err := decode[historyapi.FramesQuery](question)
	if err != nil {
		return nil, err
	}
	for _, f := range a.frames[q.RequestID] {
		if f.Next() > q.From {
			f = f.From(q.From)
			return historyapi.FramePage{Frames: []historyapi.Frame{{
				Incarnation: f.Incarnation, First: f.First, Names: f.Names, Lines: string(f.Lines),
			}}}, nil
		}
	}
	return historyapi.FramePage{}, nil
}

// keep puts req_old into the archive, a request that the bus does not have.
func (a *archive) keep(frames ...event.Frame) {
	const requestID = "req_old"
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, historyapi.Request{
		RequestID: requestID, ThreadID: "thr_old", AgentID: "demo", Owner: "dev", Status: historyapi.StatusDone,
	})
	a.threads = append(a.threads, historyapi.Thread{
		ThreadID: "thr_old", AgentID: "demo", Owner: "dev", Requests: 1, LastRequestID: requestID,
	})
	if a.frames == nil {
		a.frames = map[string][]event.Frame{}
	}
	a.frames[requestID] = frames
}
