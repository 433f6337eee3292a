package wire

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/id"
)

// The sizes of a page of tasks.
const (
	defaultPage = 50
	maxPage     = 100
)

// ListQuery are the parameters of ListTasks.
type ListQuery struct {
	ContextID        string `json:"contextId"`
	Status           State  `json:"status"`
	PageSize         *int   `json:"pageSize"`
	PageToken        string `json:"pageToken"`
	HistoryLength    *int   `json:"historyLength"`
	After            string `json:"statusTimestampAfter"`
	IncludeArtifacts bool   `json:"includeArtifacts"`

	since string // After, as tasks have it
}

// TaskPage is the result of ListTasks.
type TaskPage struct {
	Tasks         []Task `json:"tasks"`
	NextPageToken string `json:"nextPageToken"`
	PageSize      int    `json:"pageSize"`
	TotalSize     int    `json:"totalSize"`
}

// DecodeListQuery decodes the parameters.
func DecodeListQuery(body []byte) (ListQuery, error) {
	var q ListQuery
	if err := decode(body, &q, `{"contextId":"…"}`); err != nil {
		return q, err
	}
	return q.checked()
}

// ParseListQuery parses the parameters of a URL.
func ParseListQuery(in url.Values) (q ListQuery, err error) {
	q = ListQuery{
		ContextID: in.Get("contextId"), Status: State(in.Get("status")), PageToken: in.Get("pageToken"), After: in.Get("statusTimestampAfter"),
	}
	if q.PageSize, err = ParseLength("pageSize", in.Get("pageSize")); err != nil {
		return q, err
	}
	if q.HistoryLength, err = ParseLength("historyLength", in.Get("historyLength")); err != nil {
		return q, err
	}
	if text := in.Get("includeArtifacts"); text != "" {
		if q.IncludeArtifacts, err = strconv.ParseBool(text); err != nil {
			return q, invalid("includeArtifacts is %.40q; use true or false", text)
		}
	}
	return q.checked()
}

// states are the states by which a list can be filtered.
var states = []State{ //nolint:gochecknoglobals // a constant list
	StateSubmitted, StateWorking, StateInputRequired, StateCompleted, StateFailed, StateCanceled, StateRejected, "TASK_STATE_AUTH_REQUIRED",
}

func (q ListQuery) checked() (ListQuery, error) {
	if q.Status == "TASK_STATE_UNSPECIFIED" {
		q.Status = ""
	}
	switch {
	case q.ContextID == "":
		return q, Unsupported.New("contextId is missing; tasks are listed by context")
	case !id.Valid(q.ContextID):
		return q, invalid("contextId %.80q must match ^[A-Za-z0-9_-]{1,64}$", q.ContextID)
	case q.Status != "" && !slices.Contains(states, q.Status):
		return q, invalid("status is %.40q, which is not the state of a task", q.Status)
	case q.PageSize != nil && (*q.PageSize < 1 || *q.PageSize > maxPage):
		return q, invalid("pageSize is %d; it must be from 1 to %d", *q.PageSize, maxPage)
	}
	if q.After != "" {
		at, err := time.Parse(time.RFC3339Nano, q.After)
		if err != nil {
			return q, invalid("statusTimestampAfter is %.40q; send a time such as 2026-01-31T12:00:00Z", q.After)
		}
		q.since = timestamp(at)
	}
	return q, checkLength("historyLength", q.HistoryLength)
}

// position is the place of a task in a list, of which the newest is the first.
func position(t Task) string { return t.Status.Timestamp + "/" + t.ID }

// Page selects a page of tasks, the newest status first.
func (q ListQuery) Page(all []Task) TaskPage {
	size := defaultPage
	if q.PageSize != nil {
		size = *q.PageSize
	}
	all = slices.DeleteFunc(all, func(t Task) bool {
		return q.Status != "" && t.Status.State != q.Status || t.Status.Timestamp < q.since
	})
	slices.SortFunc(all, func(a, b Task) int { return cmp.Compare(position(b), position(a)) })
	page := TaskPage{Tasks: []Task{}, TotalSize: len(all)}
	for _, t := range all {
		if q.PageToken != "" && strings.Compare(position(t), q.PageToken) >= 0 {
			continue
		}
		if len(page.Tasks) == size {
			page.NextPageToken = position(page.Tasks[size-1])
			break
		}
		page.Tasks = append(page.Tasks, t)
	}
	page.PageSize = size
	return page
}
