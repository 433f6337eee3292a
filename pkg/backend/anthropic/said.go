package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	jsonv2 "github.com/go-json-experiment/json"
)

// said is the content of an answer, which goes back unchanged when the provider pauses it.
type said struct{ blocks []*saidBlock }

// saidBlock is a block as it started, and what was added to each of its members.
type saidBlock struct {
	index int64
	start string
	added map[string]*strings.Builder
}

func (s *said) start(e sdk.ContentBlockStartEvent) {
	s.blocks = append(s.blocks, &saidBlock{index: e.Index, start: e.ContentBlock.RawJSON()})
}

func (s *said) delta(e sdk.ContentBlockDeltaEvent) {
	for _, b := range s.blocks {
		if b.index != e.Index {
			continue
		}
		b.add("text", e.Delta.Text)
		b.add("thinking", e.Delta.Thinking)
		b.add("signature", e.Delta.Signature)
		b.add("input", e.Delta.PartialJSON)
	}
}

func (b *saidBlock) add(member, text string) {
	if text == "" {
		return
	}
	if b.added == nil {
		b.added = map[string]*strings.Builder{}
	}
	if b.added[member] == nil {
		b.added[member] = new(strings.Builder)
	}
	_, _ = b.added[member].WriteString(text) // never fails
}

// message returns the answer as a message of the assistant.
func (s *said) message() (sdk.MessageParam, error) {
	var content []sdk.ContentBlockParamUnion
	for _, b := range s.blocks {
		block := map[string]any{}
		if err := jsonv2.Unmarshal([]byte(b.start), &block); err != nil {
			return sdk.MessageParam{}, fmt.Errorf("block %d of the answer: %w", b.index, err)
		}
		for member, text := range b.added {
			if member == "input" {
				block[member] = json.RawMessage(text.String())
				continue
			}
			start, _ := block[member].(string) // absent at the start of most blocks
			block[member] = start + text.String()
		}
		text, err := jsonv2.Marshal(block, jsonv2.Deterministic(true))
		if err != nil {
			return sdk.MessageParam{}, fmt.Errorf("block %d of the answer: %w", b.index, err)
		}
		content = append(content, param.Override[sdk.ContentBlockParamUnion](json.RawMessage(text)))
	}
	if len(content) == 0 {
		return sdk.MessageParam{}, fmt.Errorf("the answer was paused without content")
	}
	return sdk.NewAssistantMessage(content...), nil
}
