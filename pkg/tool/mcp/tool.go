package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
)

// Separator separates the name of a source from that of its tool.
const Separator = "__"

// MaxName is the longest name of a source.
const MaxName = 24

// The limits of a server's offer. Tools over a limit are left out, and that is logged.
const (
	maxTools       = 200
	maxDescription = 8 << 10   // bytes
	maxSpecs       = 512 << 10 // bytes of all descriptions and schemas: they travel in one message
)

// offer is what a server offers.
type offer struct {
	specs []tool.Spec          // in the order of their names
	tools map[string]tool.Tool // never nil
	left  []string             // what is left out, and why
}

// list reads what the server offers: for runners to show, and for us to call.
func (s *Source) list(ctx context.Context, l *link) (offer, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	o := offer{specs: []tool.Spec{}, tools: map[string]tool.Tool{}}
	offered, err := s.pick(ctx, l, &o)
	if err != nil {
		return offer{}, fmt.Errorf("list tools: %w", err)
	}
	names := named(s.options.Name, offered)
	room := maxSpecs
	for _, name := range slices.Sorted(maps.Keys(names)) {
		spec, err := s.spec(name, names[name])
		if err == nil && len(spec.Description)+len(spec.Schema) > room {
			err = fmt.Errorf("tool %s: the tools before it have taken all the room for descriptions and schemas", name)
		}
		if err != nil {
			o.left = append(o.left, err.Error())
			continue
		}
		room -= len(spec.Description) + len(spec.Schema)
		o.specs = append(o.specs, spec)
		o.tools[name] = s.tool(spec, names[name].Name)
	}
	o.add(s.data(l))
	return o, nil
}

// pick reads the list of the server, and takes what the operator wants of it.
func (s *Source) pick(ctx context.Context, l *link, o *offer) ([]*sdk.Tool, error) {
	var offered []*sdk.Tool
	missing := slices.Clone(s.options.Tools)
	if can := l.session.InitializeResult().Capabilities; can != nil && can.Tools == nil && (s.options.Resources || s.options.Prompts) {
		return nil, nil // a server of resources or prompts alone
	}
	for t, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if s.options.Tools != nil && !slices.Contains(s.options.Tools, t.Name) {
			continue
		}
		if len(offered) == maxTools {
			o.left = append(o.left, fmt.Sprintf("all after the first %d tools: name those that are needed", maxTools))
			break
		}
		offered = append(offered, t)
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == t.Name })
	}
	for _, name := range missing {
		o.left = append(o.left, fmt.Sprintf("the server has no tool %q", name))
	}
	return offered, nil
}

// named assigns names to tools: the source's name, two underscores, and the tool's name, made valid. If two names
// become equal, the changed ones get a suffix that depends on nothing but their original name.
func named(source string, offered []*sdk.Tool) map[string]*sdk.Tool {
	claims := map[string]int{}
	for _, t := range offered {
		claims[valid(source+Separator+t.Name)]++
	}
	names := make(map[string]*sdk.Tool, len(offered))
	for _, t := range offered {
		full := source + Separator + t.Name
		name := valid(full)
		if name != full && (claims[name] > 1 || len(full) > id.MaxLength) {
			sum := sha256.Sum256([]byte(t.Name))
			name = name[:min(len(name), id.MaxLength-7)] + "_" + hex.EncodeToString(sum[:3])
		}
		if _, taken := names[name]; !taken {
			names[name] = t
		}
	}
	return names
}

// valid replaces what a name may not have, and cuts it.
func valid(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && id.Valid(string(r)) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), id.MaxLength)]
}

// spec is a tool as models and operators see it. What a server says of its tools' effects are hints; an operator who does
// not trust them says so in the configuration. Without a word, a tool may do anything, so people are asked.
func (s *Source) spec(name string, t *sdk.Tool) (tool.Spec, error) {
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		return tool.Spec{}, fmt.Errorf("its schema: %w", err)
	}
	spec := tool.Spec{
		Name: name, Description: describe(s.options.Name, t), Schema: json.RawMessage(schema),
		Effect: tool.EffectUnsafe, Approval: tool.ApprovalAlways,
	}
	switch hints := t.Annotations; {
	case hints == nil:
	case hints.ReadOnlyHint:
		spec.Effect, spec.Approval = tool.EffectNone, tool.ApprovalNever
	case hints.IdempotentHint:
		spec.Effect = tool.EffectIdempotent
	}
	_, err = tool.CompileSchema(spec)
	return spec, err
}

func describe(source string, t *sdk.Tool) string {
	text := strings.ToValidUTF8(t.Description, "\uFFFD")
	if text == "" {
		text = fmt.Sprintf("The tool %s of %s.", t.Name, source)
	}
	if len(text) > maxDescription {
		text = strings.ToValidUTF8(text[:maxDescription], "") + "…"
	}
	return text
}

// trace is the trace of ctx as MCP carries it (SEP-414).
func trace(ctx context.Context) sdk.Meta {
	carrier := propagation.MapCarrier{}
	otel.GetTextMapPropagator().Inject(ctx, carrier)
	meta := sdk.Meta{}
	for name, value := range carrier {
		meta[name] = value
	}
	return meta
}

// repeatable reports whether a call that has failed may be made again: because it did not run, or because the connection
// broke and the tool has no effect that a second run would repeat.
func repeatable(l *link, effect tool.Effect, failed error) bool {
	_, refused := errors.AsType[*jsonrpc.Error](failed)
	switch {
	case unreached(failed):
		return true
	case broken(failed):
		return effect != tool.EffectUnsafe
	case l.lost():
		return true // the server has lost the session
	default:
		return !refused && effect != tool.EffectUnsafe
	}
}

// unreached reports whether no connection to the server could be opened.
func unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// broken reports whether an HTTP request got no response of the server. The SDK reports this as a refusal, too.
func broken(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok
}

func (l *link) lost() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// explain returns a server's rejection as an error for the model. After any other error it is unknown whether the call
// has run: that error is for operators.
func (s *Source) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if unreached(err) {
		return apierr.Wrap(err, apierr.ToolError,
			"the MCP server %s cannot be reached, so the call did not run; try again later, or continue without it", s.options.Name)
	}
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && !broken(err) {
		return apierr.Wrap(err, apierr.ToolError, "the MCP server %s refuses the call: %.1000s", s.options.Name, refused.Message)
	}
	return err
}
