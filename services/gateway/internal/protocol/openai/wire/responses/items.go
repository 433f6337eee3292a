package responses

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
)

// entity is an item that is not complete.
type entity struct {
	item   Item
	key    string // the block of a text or a reasoning, the call of a call
	index  int    // in the output
	text   []byte // of the deltas
	parted bool   // the part of the text was added
	argued bool   // the arguments of the call are complete
	void   bool   // the runner has discarded the call, and may make it again under its id
}

// nextID returns the id of the next item. It has the request, so that a reference to the item names the response.
func (r *run) nextID(kind string) string {
	return kind + "_" + r.requestID + "_" + strconv.Itoa(r.items)
}

// RequestOfItem returns the request of an item that this server has made; "" if another one has.
func RequestOfItem(itemID string) string {
	_, rest, _ := strings.Cut(itemID, "_")
	end := strings.LastIndexByte(rest, '_')
	if end < 0 || !id.Valid(rest[:end]) {
		return ""
	}
	return rest[:end]
}

// start writes the start of an item.
func (r *run) start(e *entity) *entity {
	r.begin()
	e.index = r.items
	r.items++
	r.open = append(r.open, e)
	r.emit(Event{Type: itemAdded, OutputIndex: &e.index, Item: e.item.clone()})
	switch e.item.Type {
	case typeMessage:
		r.addPart(e)
	case typeMCPCall:
		r.emit(Event{Type: mcpInProgress, OutputIndex: &e.index, ItemID: e.item.ID})
	}
	return e
}

// addPart writes the start of the text of an item.
func (r *run) addPart(e *entity) {
	e.parted = true
	if e.item.Type == typeMessage {
		part := outputText("")
		r.emit(Event{Type: partAdded, OutputIndex: &e.index, ItemID: e.item.ID, ContentIndex: new(int), Part: &part})
		return
	}
	part := summaryText("")
	r.emit(Event{Type: summaryPartAdded, OutputIndex: &e.index, ItemID: e.item.ID, SummaryIndex: new(int), Part: &part})
}

// delta writes a piece of the text or the arguments of an item.
func (r *run) delta(e *entity, piece string) {
	if piece == "" || e.argued {
		return
	}
	e.text = append(e.text, piece...)
	one := Event{OutputIndex: &e.index, ItemID: e.item.ID, Delta: &piece}
	switch e.item.Type {
	case typeMessage:
		one.Type, one.ContentIndex, one.Logprobs = textDelta, new(int), []empty{}
	case typeReasoning:
		if !e.parted {
			r.addPart(e)
		}
		one.Type, one.SummaryIndex = summaryTextDelta, new(int)
	case typeFunctionCall:
		one.Type = functionDelta
	case typeMCPCall:
		one.Type = mcpDelta
	}
	r.emit(one)
}

// finishText writes the end of the text of an item.
func (r *run) finishText(e *entity) {
	text := string(e.text)
	one := Event{OutputIndex: &e.index, ItemID: e.item.ID, Text: &text}
	if e.item.Type == typeMessage {
		one.Type, one.ContentIndex, one.Logprobs = textDone, new(int), []empty{}
		r.emit(one)
		part := outputText(text)
		e.item.Content = []Part{part}
		r.emit(Event{Type: partDone, OutputIndex: &e.index, ItemID: e.item.ID, ContentIndex: new(int), Part: &part})
		return
	}
	if !e.parted {
		return
	}
	one.Type, one.SummaryIndex = summaryTextDone, new(int)
	r.emit(one)
	part := summaryText(text)
	e.item.Summary = []Part{part}
	r.emit(Event{Type: summaryPartDone, OutputIndex: &e.index, ItemID: e.item.ID, SummaryIndex: new(int), Part: &part})
}

// finishArguments writes the end of the arguments of a call, once.
func (r *run) finishArguments(e *entity) {
	if e.argued {
		return
	}
	e.argued = true
	arguments := string(e.text)
	e.item.Arguments = &arguments
	one := Event{Type: mcpDone, OutputIndex: &e.index, ItemID: e.item.ID, Arguments: &arguments}
	if e.item.Type == typeFunctionCall {
		one.Type, one.Name = functionDone, e.item.Name
	}
	r.emit(one)
}

// close writes the end of an item that counts.
func (r *run) close(e *entity, status string) {
	r.finish(e, status)
	r.keep(e.item)
}

// discard writes the end of an item that does not count: the output of the response does not have it.
func (r *run) discard(e *entity) { r.finish(e, statusIncomplete) }

func (r *run) finish(e *entity, status string) {
	switch e.item.Type {
	case typeMessage, typeReasoning:
		r.finishText(e)
	default:
		r.finishArguments(e)
	}
	e.item.Status = status
	switch {
	case e.item.Type != typeMCPCall:
	case status == statusCompleted:
		r.emit(Event{Type: mcpCompleted, OutputIndex: &e.index, ItemID: e.item.ID})
	case status == statusFailed:
		r.emit(Event{Type: mcpFailed, OutputIndex: &e.index, ItemID: e.item.ID})
	}
	r.open = slices.DeleteFunc(r.open, func(other *entity) bool { return other == e })
	r.emit(Event{Type: itemDone, OutputIndex: &e.index, Item: e.item.clone()})
}

// whole writes an item that is complete when it starts.
func (r *run) whole(item Item) {
	r.begin()
	index := r.items
	r.items++
	r.emit(Event{Type: itemAdded, OutputIndex: &index, Item: item.clone()})
	r.emit(Event{Type: itemDone, OutputIndex: &index, Item: item.clone()})
	r.keep(item)
}

// find returns an item that is open; nil without one.
func (r *run) find(key string) *entity {
	i := slices.IndexFunc(r.open, func(e *entity) bool { return e.key == key })
	if i < 0 {
		return nil
	}
	return r.open[i]
}

// partial returns an item as far as it is.
func (e *entity) partial() Item {
	item, text := e.item, string(e.text)
	switch {
	case item.Type == typeMessage:
		item.Content = []Part{outputText(text)}
	case item.Type != typeReasoning:
		item.Arguments = &text
	case e.parted:
		item.Summary = []Part{summaryText(text)}
	}
	return item
}

func (i Item) clone() *Item { return &i }

// size is about the number of bytes that an item needs.
func (i Item) size() int {
	size := len(i.ID) + len(i.Name) + len(i.Encrypted) + len(i.Question)
	for _, p := range slices.Concat(i.Content, i.Summary) {
		size += len(*p.Text)
	}
	if i.Arguments != nil {
		size += len(*i.Arguments)
	}
	if i.Output != nil {
		size += len(*i.Output)
	}
	return size
}

// text projects a block of text.
func (r *run) text(b event.Block, delta, whole, phase string) {
	e := r.find(b.BlockID)
	if e == nil {
		e = r.start(&entity{key: b.BlockID, item: Item{
			ID: r.nextID("msg"), Type: typeMessage, Status: statusInProgress, Role: event.RoleAssistant, Phase: phase, Content: []Part{},
		}})
	}
	r.prose(e, b, delta, whole)
}

// thinking projects a block of reasoning.
func (r *run) thinking(b event.Thinking) {
	e := r.find(b.BlockID)
	if e == nil {
		e = r.start(&entity{key: b.BlockID, item: Item{
			ID: r.nextID("rs"), Type: typeReasoning, Status: statusInProgress, Summary: []Part{},
		}})
	}
	if !b.Discarded {
		e.item.Encrypted = b.Signature
	}
	r.prose(e, b.Block, b.Delta, b.Thinking)
}

func (r *run) prose(e *entity, b event.Block, delta, whole string) {
	switch b.Stage {
	case event.StageDelta:
		r.delta(e, delta)
	case event.StageStop:
		if b.Discarded {
			r.discard(e)
			return
		}
		if len(e.text) == 0 {
			r.delta(e, whole)
		} else if whole != "" {
			e.text = []byte(whole)
		}
		r.close(e, statusCompleted)
	case event.StageStart:
	}
}

// action projects what the client must do, unless a call that was streamed shows it.
func (r *run) action(b event.Continuation) {
	callID := wire.CallID{Kind: b.Kind, ActionID: b.ActionID, ThreadID: r.threadID}.String()
	if b.Kind == event.ContinueApproval {
		arguments := argumentsText(b.Payload.Args)
		r.whole(Item{
			ID: callID, Type: typeApprovalRequest, ServerLabel: ServerLabel, Name: b.Payload.Tool, Arguments: &arguments, Question: b.Payload.Question,
		})
		return
	}
	if b.Kind == event.ContinueTool && b.Payload.Agent == nil && r.hidden[b.Payload.ToolCallID] {
		return
	}
	call := wire.CallOf(b, r.threadID)
	e := r.start(&entity{item: functionCall(r.nextID("fc"), call.ID, call.Name)})
	r.delta(e, call.Arguments)
	r.close(e, statusCompleted)
}

func functionCall(itemID, callID, name string) Item {
	return Item{ID: itemID, Type: typeFunctionCall, Status: statusInProgress, CallID: callID, Name: name, Arguments: new(string)}
}

func argumentsText(args []byte) string {
	if len(args) == 0 {
		return "{}"
	}
	return string(args)
}
