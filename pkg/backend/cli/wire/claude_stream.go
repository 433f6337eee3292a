package wire

import (
	"cmp"
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/backend"
)

// claudeEvent is an event of Anthropic's messages API, which Claude Code passes on.
type claudeEvent struct {
	Type    string        `json:"type"`
	Index   int           `json:"index"`
	Message claudeMessage `json:"message"`
	Block   claudePart    `json:"content_block"`
	Usage   claudeUsage   `json:"usage"`
	Delta   struct {
		Type      string `json:"type"`
		Text      string `json:"text"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		JSON      string `json:"partial_json"`
		Stop      string `json:"stop_reason"`
	} `json:"delta"`
}

func (c *claude) event(e claudeEvent, out *output) {
	switch e.Type {
	case "message_start":
		c.streamed, c.usage, c.stop, c.stepped = e.Message.ID, e.Message.Usage, "", false
		c.blocks = map[int]*claudeBlock{}
		out.report.Model = cmp.Or(e.Message.Model, out.report.Model)
	case "content_block_start":
		if len(c.blocks) < maxBlocks {
			c.blocks[e.Index] = &claudeBlock{kind: e.Block.Type, id: e.Block.ID, name: e.Block.Name}
		}
		c.delta(e.Block.Text, e.Block.Thinking, "", out)
	case "content_block_delta":
		if b := c.blocks[e.Index]; b != nil && b.args.Len() < MaxLine {
			b.args.WriteString(e.Delta.JSON)
		}
		c.delta(e.Delta.Text, e.Delta.Thinking, e.Delta.Signature, out)
	case "content_block_stop":
		if b := c.blocks[e.Index]; b != nil && b.kind == "tool_use" {
			c.start(b.id, b.name, object(json.RawMessage(b.args.String())), out)
		}
		delete(c.blocks, e.Index)
	case "message_delta":
		c.stop = cmp.Or(e.Delta.Stop, c.stop)
		c.usage.Output = max(c.usage.Output, e.Usage.Output)
	case "message_stop":
		if c.stop == "tool_use" {
			c.step(out)
		}
	}
}

// maxBlocks bounds the blocks of a message that are open at once.
const maxBlocks = 1024

func (c *claude) delta(text, thinking, signature string, out *output) {
	if text != "" {
		c.said = true
		out.emit(backend.TextDelta(text))
	}
	if thinking != "" {
		out.emit(backend.ThinkingDelta(thinking))
	}
	if signature != "" {
		out.emit(backend.Signature(signature))
	}
}
