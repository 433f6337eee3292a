// Command client is a tool source as the official MCP conformance suite wants to see a client: it connects to the server
// that its last argument names, and calls each tool that is offered once, with arguments made from the tool's schema. Where a
// tool wants an object, it shows that the schemas have come as they were sent. In the scenarios of OAuth, a user logs in first,
// and again when the source asks for it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	name         string
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	ToolCalls    []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

func run(ctx context.Context, url string) error {
	told := scenario{name: os.Getenv("MCP_CONFORMANCE_SCENARIO")}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := jsonv2.Unmarshal([]byte(text), &told); err != nil {
			return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	options := mcp.Options{Name: "suite", URL: url, Elicitation: true, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	var err error
	if options.Allow, err = egress.ParseAllow(local()); err != nil {
		return err
	}
	logsIn := strings.HasPrefix(told.name, "auth/") && !strings.HasPrefix(told.name, "auth/client-credentials")
	if logsIn || told.ClientSecret != "" {
		options.OAuth = &mcp.OAuth{ClientID: told.ClientID, ClientSecret: told.ClientSecret}
	}
	if !logsIn {
		return use(ctx, options, told)
	}
	folder, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // of the suite's own tokens
	if told.name == "auth/basic-cimd" {
		options.OAuth.ClientID = clientDocument
	}
	options.OAuth.TokenFile = filepath.Join(folder, "token")
	for range maxLogins {
		if err = mcp.Login(ctx, options, 0, visit(ctx)); err != nil {
			return err
		}
		if err = use(ctx, options, told); err == nil {
			return nil
		}
		fmt.Fprintln(os.Stderr, "client: log in again:", err)
	}
	return err
}

const (
	maxLogins      = 3
	clientDocument = "https://conformance-test.local/client-metadata.json" // where the suite believes that clients describe themselves
)

// local are the addresses of the suite's servers, whose ports are any.
func local() []string {
	allow := make([]string, 0, math.MaxUint16)
	for port := range math.MaxUint16 {
		allow = append(allow, fmt.Sprintf("localhost:%d", port+1))
	}
	return allow
}

// visit is a user whose browser needs no form to log in.
func visit(ctx context.Context) func(page string) error {
	return func(page string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
}

var errLogin = errors.New("a call needs a login")

func needsLogin(err error) bool { return err != nil && strings.Contains(err.Error(), "must log in") }

// use connects, and makes the calls of the scenario and one of each other tool.
func use(ctx context.Context, options mcp.Options, told scenario) error {
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
	if _, err := source.Tool(ctx, source.Name()+mcp.Separator); needsLogin(err) {
		return errLogin
	}
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
	if needsLogin(err) {
		return errLogin
	}
	if compact, fewer := withoutNulls(args); fewer && apierr.CodeOf(err) == apierr.ToolError {
		return call(ctx, source, name, compact) // as a model that reads the error
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

// withoutNulls returns arguments without those that are null, and whether there are any.
func withoutNulls(args json.RawMessage) (json.RawMessage, bool) {
	var all map[string]json.RawMessage
	if jsonv2.Unmarshal(args, &all) != nil {
		return nil, false
	}
	before := len(all)
	maps.DeleteFunc(all, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	data, err := jsonv2.Marshal(all)
	return data, err == nil && len(all) < before
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
