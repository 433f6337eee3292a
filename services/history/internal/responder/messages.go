package responder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// messageBytes bounds what is read of one request for its messages. What is beyond is left out: only a request that ended
// with an error, whose blocks are sent one by one, can have as much.
const messageBytes = 8 << 20

// Messages lists what was said on a thread, the messages of so many requests a page.
func (a *Answerer) Messages(ctx context.Context, q historyapi.MessagesQuery) (historyapi.MessagePage, error) {
	page := historyapi.MessagePage{Messages: []historyapi.Message{}}
	size, from, err := a.openList(ctx, q.ThreadRef, list{historyapi.VerbMessages, q.Cursor, q.Limit, 50, 200})
	if err != nil {
		return page, err
	}
	requests, err := a.store.Requests(ctx, q.Tenant, q.ThreadID, from.position(), size+1)
	if err != nil {
		return page, err
	}
	more := len(requests) > size
	requests = requests[:min(len(requests), size)]
	messageEvents, events, err := a.messageEvents(ctx, q.ThreadRef, requests)
	if err != nil {
		return page, err
	}
	for _, r := range messageEvents {
		messages, err := messagesOf(r, events[r.RequestID])
		if err != nil {
			return page, err
		}
		page.Messages = append(page.Messages, messages...)
	}
	if more || len(messageEvents) < len(requests) {
		last := messageEvents[len(messageEvents)-1]
		page.NextCursor = place{List: historyapi.VerbMessages, Index: last.Index, ID: last.RequestID}.cursor()
	}
	return page, nil
}

// messageEvents reads the events that messages are made of, for as many of the requests as fit into one response, at least one.
func (a *Answerer) messageEvents(
	ctx context.Context, thread historyapi.ThreadRef, requests []store.Request,
) ([]store.Request, map[string][]store.Event, error) {
	events := map[string][]store.Event{}
	bytes := 0
	for i, r := range requests {
		found, err := a.store.Events(ctx, store.Events{
			Tenant: thread.Tenant, RequestID: r.RequestID, Blocks: true, Names: messageNames(r.Status), Limit: transcriptEvents,
			Bytes: messageBytes,
		})
		if err != nil {
			return nil, nil, err
		}
		events[r.RequestID] = found
		if bytes += bytesOf(found); bytes > pageBytes {
			return requests[:i+1], events, nil
		}
	}
	return requests, events, nil
}

// messageNames lists the events that contain messages. An error event does not contain the blocks finished before it,
// so for failed requests the blocks are read.
func messageNames(s historyapi.Status) []event.Name {
	names := []event.Name{event.NameInput, event.NameDone, event.NameAborted}
	if s == historyapi.StatusError {
		names = append(names, event.NameText, event.NameThinking, event.NameToolCall, event.NameToolResult)
	}
	return names
}

// messagesOf returns the messages of a request: the user's, from the log or else from the accept record, and the
// answer.
func messagesOf(r store.Request, events []store.Event) ([]historyapi.Message, error) {
	var messages []historyapi.Message
	answer := historyapi.Message{RequestID: r.RequestID, Role: "assistant", At: r.EndedAt}
	for _, stored := range events {
		e, err := event.Decode(stored.JSON)
		if err != nil {
			return nil, fmt.Errorf("event %d of request %s: %w", stored.N, r.RequestID, err)
		}
		switch body := e.Body.(type) {
		case event.Input:
			messages = append(messages, imported(r, body.History, e.Time)...)
			messages = append(messages, said(r, body.Messages, e.Time)...)
		case event.Done:
			answer.MessageID, answer.Content, answer.FinishReason = body.MessageID, body.Content, body.FinishReason
		case event.Aborted:
			answer.MessageID, answer.Content = body.MessageID, body.Content
		default:
			finish(&answer, body)
		}
	}
	if !slices.ContainsFunc(events, func(e store.Event) bool { return e.Name == event.NameInput }) {
		messages = append(said(r, r.Input, r.CreatedAt), messages...)
	}
	if weaken.Without(weaken.WholeMessages) {
		answer.Content = slices.DeleteFunc(answer.Content, func(c event.Content) bool { return c.Type == event.ContentToolUse })
	}
	if len(answer.Content) > 0 || answer.FinishReason != "" {
		messages = append(messages, answer)
	}
	return messages, nil
}

func said(r store.Request, input []event.InputMessage, at time.Time) []historyapi.Message {
	messages := make([]historyapi.Message, len(input))
	for i, m := range input {
		messages[i] = historyapi.Message{RequestID: r.RequestID, Role: m.Role, Input: m.Content, At: at}
	}
	return messages
}

// imported returns the messages of a conversation that the client has kept: the results of tools are part of the assistant's
// messages, as in those of the thread's own requests.
func imported(r store.Request, history []event.HistoryMessage, at time.Time) []historyapi.Message {
	var messages []historyapi.Message
	for _, m := range history {
		switch m.Role {
		case event.RoleUser:
			messages = append(messages, historyapi.Message{RequestID: r.RequestID, Role: m.Role, Input: m.Content, At: at})
		case event.RoleAssistant:
			if content := importedContent(m); len(content) > 0 {
				messages = append(messages, historyapi.Message{RequestID: r.RequestID, Role: m.Role, MessageID: m.ID, Content: content, At: at})
			}
		case event.RoleTool:
			c := event.Content{Type: event.ContentToolResult, ToolCallID: m.ToolCallID, Status: cmp.Or(m.Status, event.ToolSuccess)}
			if last := len(messages) - 1; last >= 0 && messages[last].Role == event.RoleAssistant {
				messages[last].Content = append(messages[last].Content, c)
			}
		}
	}
	return messages
}

func importedContent(m event.HistoryMessage) []event.Content {
	var content []event.Content
	if text := m.Content.Text(); text != "" {
		content = append(content, event.Content{Type: event.ContentText, Text: text})
	}
	for _, c := range m.ToolCalls {
		content = append(content, event.Content{Type: event.ContentToolUse, ToolCallID: c.ID, Name: c.Name, Args: []byte(c.Args)})
	}
	return content
}

// finish adds a block that was finished before an error.
func finish(m *historyapi.Message, body event.Body) {
	add := func(b event.Block, c event.Content) {
		if b.Stage != event.StageStop || b.Discarded {
			return
		}
		m.MessageID = b.MessageID
		m.Content = append(m.Content, c)
	}
	switch b := body.(type) {
	case event.Text:
		add(b.Block, event.Content{Type: event.ContentText, Text: b.Text})
	case event.Thinking:
		add(b.Block, event.Content{Type: event.ContentThinking, Thinking: b.Thinking})
	case event.ToolCall:
		add(b.Block, event.Content{Type: event.ContentToolUse, ToolCallID: b.ToolCallID, Name: b.Tool, Args: b.Args})
	case event.ToolResult:
		add(b.Block, event.Content{
			Type: event.ContentToolResult, ToolCallID: b.ToolCallID, Name: b.Tool, Status: b.Status, Summary: b.Summary,
			Media: b.Media,
		})
	}
}
