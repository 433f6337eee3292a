package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"
)

// reader turns the chunks of one answer into ours.
type reader struct {
	emit      backend.Emit
	model     string // that was asked
	returns   bool   // the thinking goes back with the next turn
	tags      *splitter
	outcome   backend.Outcome
	calls     []call // in the order in which they began; the place is our index
	member    string // that had the thinking which is open
	chunks    int
	counted   bool   // the usage has come
	refused   bool   // the model refused to answer
	exhausted bool   // the server ended the answer for lack of resources
	unknown   string // a finish reason that this version does not know
}

func (b *Backend) reader(turn backend.Turn, emit backend.Emit) reader {
	r := reader{emit: emit, model: turn.Model, returns: !b.openai && cmp.Or(b.returns, returnsOf(turn.Model)) != ReturnNever}
	if b.thinkTags {
		r.tags = new(splitter)
	}
	return r
}

// call is a tool call that is being streamed.
type call struct {
	index int64  // theirs
	id    string // theirs
	name  string // "" until it has come, and with it our CallStart
	args  []byte // so far
}

func (r *reader) read(c sdk.ChatCompletionChunk) error {
	r.chunks++
	if c.ID != "" {
		r.outcome.ID = c.ID
	}
	if c.Model != "" {
		r.outcome.Model = c.Model
	}
	if c.JSON.Usage.Valid() {
		r.count(c.Usage)
	}
	if len(c.Choices) == 0 {
		return nil
	}
	choice := c.Choices[0] // we ask for one
	if err := r.delta(choice.Delta); err != nil {
		return err
	}
	r.finish(choice.FinishReason)
	return nil
}

func (r *reader) count(u sdk.CompletionUsage) {
	r.counted = true
	r.outcome.Usage = event.Usage{
		InputTokens:       u.PromptTokens,
		OutputTokens:      u.CompletionTokens,
		CachedInputTokens: cmp.Or(u.PromptTokensDetails.CachedTokens, number(u.JSON.ExtraFields["prompt_cache_hit_tokens"])),
		CacheWriteTokens:  u.PromptTokensDetails.CacheWriteTokens,
		ReasoningTokens:   u.CompletionTokensDetails.ReasoningTokens,
	}
}

// number reads a member that only some servers have; 0 without it.
func number(field respjson.Field) (n int64) {
	if err := jsonv2.Unmarshal([]byte(field.Raw()), &n); err != nil {
		return 0
	}
	return n
}

func (r *reader) delta(d sdk.ChatCompletionChunkChoiceDelta) error {
	if thought, member := reasoning(d); thought != "" {
		r.member = member
		if err := r.emit(backend.ThinkingDelta(thought)); err != nil {
			return err
		}
	}
	if d.Content != "" {
		if err := r.content(d.Content); err != nil {
			return err
		}
	}
	if d.Refusal != "" {
		r.refused = true
		if err := r.text(d.Refusal); err != nil {
			return err
		}
	}
	return r.toolCalls(d.ToolCalls)
}

// content takes a piece of the text, which may have thinking in it.
func (r *reader) content(piece string) error {
	if r.tags == nil {
		return r.text(piece)
	}
	return r.tags.split(piece, r.text, func(s string) error { return r.emit(backend.ThinkingDelta(s)) })
}

func (r *reader) text(s string) error {
	if err := r.sign(); err != nil {
		return err
	}
	return r.emit(backend.TextDelta(s))
}

// sign ends the thinking that is open.
func (r *reader) sign() error {
	member := r.member
	r.member = ""
	if member == "" || !r.returns {
		return nil
	}
	return r.emit(backend.Signature(note{API: chatAPI, Model: r.model, Member: member}.String()))
}

// reasoning reads the members in which compatible servers show what a model thinks. Some send both with the same text.
func reasoning(d sdk.ChatCompletionChunkChoiceDelta) (text, member string) {
	for _, name := range []string{reasoningContent, "reasoning"} {
		field, ok := d.JSON.ExtraFields[name]
		if !ok {
			continue
		}
		if err := jsonv2.Unmarshal([]byte(field.Raw()), &text); err == nil && text != "" {
			return text, name // a member of another type is not ours to read
		}
	}
	return "", ""
}

func (r *reader) toolCalls(pieces []sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	seen := map[int]bool{} // the calls of which this chunk has had a piece
	for _, tc := range pieces {
		i := r.place(tc, seen)
		if i < 0 {
			i = len(r.calls)
			r.calls = append(r.calls, call{index: tc.Index})
		}
		seen[i] = true
		if err := r.toolCall(i, tc); err != nil {
			return err
		}
	}
	return nil
}

// place returns which call a piece belongs to, -1 for a new one. Another id at the same index is another call: some servers
// number all of them 0. Without index and id, a name begins a new call if the newest one has had its piece of the chunk, or is
// complete.
func (r *reader) place(tc sdk.ChatCompletionChunkChoiceDeltaToolCall, seen map[int]bool) int {
	indexed := tc.JSON.Index.Valid()
	for i, c := range slices.Backward(r.calls) {
		if indexed && c.index != tc.Index || !indexed && tc.ID != "" && c.id != tc.ID {
			continue
		}
		if tc.ID != "" && c.id != "" && tc.ID != c.id {
			return -1
		}
		if !indexed && tc.ID == "" && tc.Function.Name != "" && c.name != "" && (seen[i] || jsontext.Value(c.args).IsValid()) {
			return -1
		}
		return i
	}
	return -1
}

// toolCall takes a piece of call i. Arguments that come before the name wait for it.
func (r *reader) toolCall(i int, tc sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	c := &r.calls[i]
	c.id = cmp.Or(tc.ID, c.id)
	args := tc.Function.Arguments
	if c.name == "" && tc.Function.Name != "" {
		c.name = tc.Function.Name
		if err := r.sign(); err != nil {
			return err
		}
		if err := r.emit(backend.CallStart{Index: i, Name: c.name}); err != nil {
			return err
		}
		args, c.args = string(c.args)+args, nil
	}
	if extra, ok := tc.JSON.ExtraFields["extra_content"]; ok && jsontext.Value(extra.Raw()).Kind() == '{' && c.name != "" {
		n := note{API: chatAPI, Model: r.model, Extra: json.RawMessage(extra.Raw())}
		if err := r.emit(backend.CallSignature{Index: i, Signature: n.String()}); err != nil {
			return err
		}
	}
	c.args = append(c.args, args...)
	if args == "" || c.name == "" {
		return nil
	}
	return r.emit(backend.CallDelta{Index: i, Args: args})
}

// end checks the answer at the end of the stream. A finish reason marks a complete answer; only the usage follows it,
// and a missing usage does not fail the answer.
func (r *reader) end(api upstream.API, res *http.Response, err error) (backend.Outcome, error) {
	if r.exhausted {
		return r.outcome, api.Refused(http.StatusServiceUnavailable, nil, "", r.outcome.ID)
	}
	if r.outcome.Finish == "" && filtered(err) {
		r.outcome.Finish = event.FinishContentFilter
		return r.outcome, nil
	}
	if r.outcome.Finish == "" {
		return r.outcome, r.fault(api, res, err)
	}
	if r.tags != nil {
		if err := r.content(""); err != nil {
			return r.outcome, err
		}
	}
	if err := r.sign(); err != nil {
		return r.outcome, err
	}
	if err := r.closeCalls(api); err != nil {
		return r.outcome, err
	}
	if r.unknown != "" {
		if err := r.emit(backend.Warning(fmt.Sprintf("%s ended the answer for the unknown reason %.64q", api.Name, r.unknown))); err != nil {
			return r.outcome, err
		}
	}
	if !r.counted {
		return r.outcome, r.emit(backend.Warning("the provider did not say how many tokens the answer took"))
	}
	return r.outcome, nil
}

// closeCalls gives calls without arguments the empty object.
func (r *reader) closeCalls(api upstream.API) error {
	for i, c := range r.calls {
		if c.name == "" {
			return api.Malformed(fmt.Errorf("call %d has no name", c.index))
		}
		if len(c.args) > 0 {
			continue
		}
		if err := r.emit(backend.CallDelta{Index: i, Args: "{}"}); err != nil {
			return err
		}
	}
	if len(r.calls) > 0 && r.outcome.Finish == event.FinishStop {
		r.outcome.Finish = event.FinishToolCalls // some servers say stop after calls, too
	}
	if r.refused && r.outcome.Finish == event.FinishStop {
		r.outcome.Finish = event.FinishRefusal
	}
	return nil
}

func (r *reader) finish(reason string) {
	switch reason {
	case "":
	case "stop":
		r.outcome.Finish = event.FinishStop
	case "length":
		r.outcome.Finish = event.FinishLength
	case "tool_calls", "function_call":
		r.outcome.Finish = event.FinishToolCalls
	case "content_filter":
		r.outcome.Finish = event.FinishContentFilter
	case "refusal":
		r.outcome.Finish = event.FinishRefusal
	case "insufficient_system_resource", "error":
		r.exhausted = true
	default: // compatible servers have names for the end of an answer
		r.outcome.Finish, r.unknown = event.FinishStop, reason
	}
}
