package openai

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire/responses"
)

// The limits of a page of items.
const (
	defaultItems = 20
	maxItems     = 100
)

// itemList is a page of items.
type itemList struct {
	Object  string           `json:"object"`
	Data    []responses.Item `json:"data"`
	FirstID *string          `json:"first_id"`
	LastID  *string          `json:"last_id"`
	HasMore bool             `json:"has_more"`
}

// getInputItems lists what a request has brought: the newest item first, unless the client asks for another order.
func (s *Server) getInputItems(x *protocol.Exchange) error {
	limit, ascending, err := page(x)
	if err != nil {
		return err
	}
	r, err := s.findResponse(x)
	if err != nil {
		return err
	}
	in, err := s.input(x, r)
	if err != nil {
		return err
	}
	items := responses.InputItems(r.RequestID, in)
	if !ascending {
		slices.Reverse(items)
	}
	if after := x.Query().Get("after"); after != "" {
		at := slices.IndexFunc(items, func(one responses.Item) bool { return one.ID == after })
		if at < 0 {
			return apierr.New(apierr.InvalidMessageFormat, "after=%.80q is not the id of an input item of this response", after)
		}
		items = items[at+1:]
	}
	list := itemList{Object: "list", Data: items[:min(limit, len(items))], HasMore: len(items) > limit}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[n-1].ID
	}
	return x.Reply(http.StatusOK, list)
}

// page returns the size and the order of a page.
func page(x *protocol.Exchange) (limit int, ascending bool, err error) {
	query := x.Query()
	limit = defaultItems
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxItems {
			return 0, false, apierr.New(apierr.InvalidMessageFormat, "limit=%.40q must be a number from 1 to %d", text, maxItems)
		}
	}
	switch order := query.Get("order"); order {
	case "", "desc":
		return limit, false, nil
	case "asc":
		return limit, true, nil
	default:
		return 0, false, apierr.New(apierr.InvalidMessageFormat, "order=%.40q must be asc or desc", order)
	}
}

// input returns what a request has brought: from its record, or from its log once the record has expired.
func (s *Server) input(x *protocol.Exchange, r authz.Request) (event.Input, error) {
	if in := inputOf(r.Accepted); len(in.Messages)+len(in.History)+len(in.ActionResults) > 0 {
		return in, nil
	}
	response, err := s.openLog(x, r)
	if err != nil {
		return event.Input{}, err
	}
	var in event.Input
	err = x.Collect(response, func(f event.Frame) error {
		for line := range f.Each() {
			if line.Name != event.NameInput {
				continue
			}
			e, err := event.Decode(line.JSON)
			if err != nil {
				return err
			}
			in, _ = e.Body.(event.Input)
			return errReached
		}
		return nil
	})
	if errors.Is(err, errReached) {
		err = nil
	}
	return in, err
}
