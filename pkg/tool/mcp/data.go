package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxListed bounds the entries of one list of resources, templates or prompts.
const maxListed = 1000

const noArguments = `{"type":"object","properties":{},"additionalProperties":false}`

// data returns the tools that read the resources and prompts of a server, as far as the operator wants them and the server
// has them.
func (s *Source) data(l *link) []tool.Tool {
	can := l.session.InitializeResult().Capabilities
	if can == nil {
		return nil
	}
	var tools []tool.Tool
	if s.options.Resources && can.Resources != nil {
		tools = append(tools,
			reader(s, "list_resources", "Lists the resources of "+s.options.Name+", and the templates of their URIs.", noArguments, listResources),
			reader(s, "read_resource", "Reads a resource of "+s.options.Name+".",
				`{"type":"object","properties":{"uri":{"type":"string","minLength":1}},"required":["uri"],"additionalProperties":false}`, readResource))
	}
	if s.options.Prompts && can.Prompts != nil {
		tools = append(tools,
			reader(s, "list_prompts", "Lists the prompts that "+s.options.Name+" has for tasks, with their arguments.", noArguments, listPrompts),
			reader(s, "get_prompt", "Returns a prompt of "+s.options.Name+" with its arguments filled in.",
				`{"type":"object","properties":{"name":{"type":"string","minLength":1},"arguments":{"type":"object",`+
					`"additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false}`, getPrompt))
	}
	return tools
}

// reader returns a tool that reads from the server, and reads again on the next connection if one breaks.
func reader[In any](
	s *Source, name, description, schema string, read func(context.Context, *sdk.ClientSession, In) (tool.Result, error),
) tool.Tool {
	spec := tool.Spec{
		Name: valid(s.options.Name + Separator + name), Description: description, Schema: json.RawMessage(schema),
		Effect: tool.EffectNone, Approval: tool.ApprovalNever,
	}
	return tool.Func(spec, func(ctx context.Context, in In, call tool.Call) (tool.Result, error) {
		ctx, err := s.options.withHeaders(ctx, call.Context)
		if err != nil {
			return tool.Result{}, err
		}
		var l *link
		for range 2 {
			v, lost := s.await(ctx, func(v view) bool { return v.link != nil && v.link != l })
			if lost != nil {
				return tool.Result{}, lost
			}
			l = v.link
			var result tool.Result
			if result, err = read(ctx, l.session, in); err == nil {
				return result, nil
			}
			if ctx.Err() != nil || !repeatable(l, spec.Effect, err) {
				break
			}
		}
		return tool.Result{}, s.explain(ctx, err)
	})
}

type nothing struct{}

func listResources(ctx context.Context, session *sdk.ClientSession, _ nothing) (tool.Result, error) {
	var list struct {
		Resources []*sdk.Resource         `json:"resources"`
		Templates []*sdk.ResourceTemplate `json:"templates,omitempty"`
		More      bool                    `json:"more,omitzero"` // the server has more than are listed
	}
	list.Resources = []*sdk.Resource{}
	for r, err := range session.Resources(ctx, nil) {
		if err != nil {
			return tool.Result{}, err
		}
		if list.More = len(list.Resources) == maxListed; list.More {
			break
		}
		list.Resources = append(list.Resources, r)
	}
	for t, err := range session.ResourceTemplates(ctx, nil) {
		if err != nil {
			return tool.Result{}, err
		}
		if len(list.Templates) == maxListed {
			list.More = true
			break
		}
		list.Templates = append(list.Templates, t)
	}
	return listed(list, len(list.Resources)+len(list.Templates), "resource")
}

func listPrompts(ctx context.Context, session *sdk.ClientSession, _ nothing) (tool.Result, error) {
	var list struct {
		Prompts []*sdk.Prompt `json:"prompts"`
		More    bool          `json:"more,omitzero"` // the server has more than are listed
	}
	list.Prompts = []*sdk.Prompt{}
	for p, err := range session.Prompts(ctx, nil) {
		if err != nil {
			return tool.Result{}, err
		}
		if list.More = len(list.Prompts) == maxListed; list.More {
			break
		}
		list.Prompts = append(list.Prompts, p)
	}
	return listed(list, len(list.Prompts), "prompt")
}

func listed(list any, n int, what string) (tool.Result, error) {
	data, err := jsonv2.Marshal(list)
	if err != nil {
		return tool.Result{}, fmt.Errorf("list of the server: %w", err)
	}
	if n != 1 {
		what += "s"
	}
	return tool.Result{Content: string(data), Summary: fmt.Sprintf("%d %s", n, what)}, nil
}

func readResource(ctx context.Context, session *sdk.ClientSession, in struct {
	URI string `json:"uri"`
},
) (tool.Result, error) {
	got, err := session.ReadResource(ctx, &sdk.ReadResourceParams{Meta: trace(ctx), URI: in.URI})
	if err != nil {
		return tool.Result{}, err
	}
	if got.NeedsInput() {
		return tool.Result{}, errAsksToRead
	}
	var parts parts
	for _, c := range got.Contents {
		parts.add(&sdk.EmbeddedResource{Resource: c})
	}
	return parts.result(), nil
}

func getPrompt(ctx context.Context, session *sdk.ClientSession, in struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
},
) (tool.Result, error) {
	got, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Meta: trace(ctx), Name: in.Name, Arguments: in.Arguments})
	if err != nil {
		return tool.Result{}, err
	}
	if got.NeedsInput() {
		return tool.Result{}, errAsksToRead
	}
	var parts parts
	if got.Description != "" {
		parts.texts = append(parts.texts, got.Description)
	}
	for _, m := range got.Messages {
		before := len(parts.texts)
		parts.add(m.Content)
		if len(parts.texts) > before {
			parts.texts[before] = string(m.Role) + ": " + parts.texts[before]
		}
	}
	return parts.result(), nil
}

var errAsksToRead = apierr.New(apierr.ToolError, "the MCP server asks the user, which it can do in a tool only")

// add adds data to what a server offers. Tools of the server with the same names have priority.
func (o *offer) add(tools []tool.Tool) {
	for _, t := range tools {
		spec := t.Spec()
		if _, taken := o.tools[spec.Name]; taken || len(spec.Name) > id.MaxLength {
			o.left = append(o.left, fmt.Sprintf("tool %s for resources or prompts: the server has a tool of this name", spec.Name))
			continue
		}
		o.specs, o.tools[spec.Name] = append(o.specs, spec), t
	}
	slices.SortFunc(o.specs, func(a, b tool.Spec) int { return strings.Compare(a.Name, b.Name) })
}
