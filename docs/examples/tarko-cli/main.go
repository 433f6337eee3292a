// Command tarko-cli is the terminal of Tarko's documentation (CLI Integration) in Go: it asks an agent and shows its
// events as they arrive. With `agentbus dev` running:
//
//	go run ./docs/examples/tarko-cli "How old is the universe?"
//
// With -watch it shows the events of an existing session, from its beginning.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strings"
	"unicode"

	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8080", "address of the gateway")
	key := flag.String("key", os.Getenv("AGENTBUS_KEY"), "API key, where the gateway asks for one")
	agent := flag.String("agent", "demo", "name of the agent")
	watched := flag.String("watch", "", "id of a session to watch, instead of a query")
	flag.Parse()
	if (flag.NArg() == 0) == (*watched == "") {
		fmt.Fprintln(os.Stderr, "usage: tarko-cli [flags] QUERY, or tarko-cli [flags] -watch SESSION")
		os.Exit(2)
	}
	c := client.New(*url, *key)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	events := query(ctx, c, *agent, strings.Join(flag.Args(), " "))
	if *watched != "" {
		events = c.FollowThread(ctx, *watched, client.ThreadOptions{Include: []string{client.Extended}, FromStart: true})
	}
	err := show(ctx, events, os.Stdout, os.Stderr)
	stopped := ctx.Err() != nil
	stop()
	if err != nil && !stopped {
		fmt.Fprintln(os.Stderr, "tarko-cli:", err)
		os.Exit(1)
	}
}

// query asks an agent. Ending the iteration early does not end the request.
func query(ctx context.Context, c *client.Client, agent, text string) iter.Seq2[event.Event, error] {
	request := event.AgentRequest{Messages: []event.InputMessage{event.UserText(text)}}
	return c.Stream(ctx, agent, request, client.StreamOptions{Include: []string{client.Extended}})
}

// show prints the events until the stream ends or ctx is done.
func show(ctx context.Context, stream iter.Seq2[event.Event, error], out, side io.Writer) error {
	events := eventstream.New(eventstream.Options{})
	defer events.Dispose()
	shown := terminal{out: out, side: side}
	events.Subscribe(eventstream.Filter{}, shown.handlers().Handle) //nolint:contextcheck // handlers have none

	if err := tarko.Feed(ctx, events, stream, tarko.Nested); err != nil {
		return err
	}
	return events.Drain(ctx)
}

// terminal shows events of the nested vocabulary.
type terminal struct{ out, side io.Writer }

func (t terminal) handlers() eventstream.Handlers {
	return eventstream.Handlers{
		string(tarko.TypeUserMessage): on(func(m tarko.UserMessage) {
			for _, part := range m.Content {
				t.print("User: ", part.Text, "\n")
			}
		}),
		string(tarko.TypeAssistantMessageDelta): on(func(d tarko.AssistantMessageDelta) { t.print(d.Delta) }),
		string(tarko.TypeAssistantMessage):      on(func(tarko.AssistantMessage) { t.print("\n") }),
		string(tarko.TypeToolCall):              on(func(call tarko.FunctionCall) { t.print("🔧 Using ", call.Name, "...\n") }),
		string(tarko.TypeToolResult): on(func(result tarko.FunctionResult) {
			if !result.Success {
				t.print("❌ Tool failed: ", result.Error, "\n")
				return
			}
			t.print("✅ Tool completed\n")
		}),
		string(tarko.TypeError): on(func(failure tarko.Error) {
			_, _ = fmt.Fprintln(t.side, "Error:", clean(failure.Error)) // a closed terminal is not an error
		}),
	}
}

// on is a handler that takes the data of its events as a D.
func on[D any](handle func(D)) func(eventstream.Event) {
	return func(e eventstream.Event) {
		var data D
		if err := e.Decode(&data); err == nil { // data of a newer server is skipped
			handle(data)
		}
	}
}

func (t terminal) print(texts ...string) {
	for _, text := range texts {
		_, _ = io.WriteString(t.out, clean(text)) // likewise
	}
}

// clean leaves out what a terminal would obey: the text comes from a model.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
