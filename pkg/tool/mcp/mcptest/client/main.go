// Command client is a tool source as the official MCP conformance suite wants to see a client: it connects to the server
// that its last argument names, and calls each tool that is offered once, with arguments made from the tool's schema. Where a
// tool wants an object, it shows that the schemas have come as they were sent.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
	jsonv2 "github.com/go-json-experiment/json"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred but cancel
	}
}

// scenario is what the suite prescribes beyond the server's address.
type scenario struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	ToolCalls    []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

func run(ctx context.Context, url string) error {
	var told scenario
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := jsonv2.Unmarshal([]byte(text), &told); err != nil {
			return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	options := mcp.Options{Name: "suite", URL: url, Elicitation: true, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	var err error
	if options.Allow, err = egress.ParseAllow([]string{"localhost", "127.0.0.0/8", "::1/128"}); err != nil { // the suite's own servers
		return err
	}
	if told.ClientSecret != "" {
		options.OAuth = &mcp.OAuth{ClientID: told.ClientID, ClientSecret: told.ClientSecret}
	}
	source, err := mcp.New(options)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	found := make(chan []tool.Spec, 1)
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		source.Run(ctx, func(_ context.Context, specs []tool.Spec) {
			select {
			case found <- specs:
			default: // one list is enough
			}
		})
	}()
	defer func() {
		stop()
		<-ended
	}()
	select {
	case specs := <-found:
		for _, c := range told.ToolCalls {
			name := source.Name() + mcp.Separator + c.Name
			if err := call(ctx, source, name, c.Arguments); err != nil {
				return err
			}
			specs = slices.DeleteFunc(specs, func(s tool.Spec) bool { return s.Name == name })
		}
		return callAll(ctx, source, specs)
	case <-ctx.Done():
		return errors.New("the server was not reached in time")
	}
}

func callAll(ctx context.Context, source *mcp.Source, specs []tool.Spec) error {
	for _, spec := range specs {
		args, err := example(spec, specs[0].Schema)
		if err != nil {
			return err
		}
		if err := call(ctx, source, spec.Name, args); err != nil {
			return err
		}
	}
	return nil
}

func call(ctx context.Context, source *mcp.Source, name string, args json.RawMessage) error {
	t, err := source.Tool(ctx, name)
	if err != nil {
		return err
	}
	next := tool.Call{ID: "call_1", Args: args, Progress: func(string) {}}
	result, err := t.Call(ctx, next)
	for err == nil && result.Ask != nil {
		var answer json.RawMessage
		if answer, err = example(tool.Spec{Name: "the answer", Schema: result.Ask.Schema}, nil); err != nil {
			return err
		}
		next.Answer = &tool.Answer{Ask: *result.Ask, Result: event.ActionResult{Status: event.ActionSuccess, Result: answer}}
		result, err = t.Call(ctx, next)
	}
	if apierr.CodeOf(err) == apierr.ToolError {
		fmt.Fprintln(os.Stderr, name, "refuses:", err) // an example checks types only
		return nil
	}
	if err != nil {
		return fmt.Errorf("call %s: %w", name, err)
	}
	fmt.Fprintln(os.Stderr, name, "gives", result.Content)
	return nil
}

// example makes arguments of a schema: a value of its type for each required property, and object for each object.
func example(spec tool.Spec, object json.RawMessage) ([]byte, error) {
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := jsonv2.Unmarshal(spec.Schema, &schema); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", spec.Name, err)
	}
	args := map[string]any{}
	for name, property := range schema.Properties {
		if !slices.Contains(schema.Required, name) {
			continue
		}
		switch property.Type {
		case "number", "integer":
			args[name] = 5
		case "boolean":
			args[name] = true
		case "object":
			args[name] = object
		default:
			args[name] = "text"
		}
	}
	return jsonv2.Marshal(args)
}
