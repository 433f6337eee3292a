package schemas_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/goccy/go-yaml"
)

// asyncAPI parses the document as far as the tests look at it.
func asyncAPI(t *testing.T) (doc asyncDocument) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, "asyncapi.yaml"), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

type asyncDocument struct {
	AsyncAPI string `yaml:"asyncapi"`
	Channels map[string]struct {
		Address    string               `yaml:"address"`
		Parameters map[string]reference `yaml:"parameters"`
		Messages   map[string]reference `yaml:"messages"`
	} `yaml:"channels"`
	Operations map[string]struct {
		Action  string    `yaml:"action"`
		Channel reference `yaml:"channel"`
	} `yaml:"operations"`
	Components struct {
		Parameters map[string]any `yaml:"parameters"`
		Messages   map[string]struct {
			Name    string    `yaml:"name"`
			Payload reference `yaml:"payload"`
		} `yaml:"messages"`
	} `yaml:"components"`
}

type reference struct {
	Ref string `yaml:"$ref"`
}

func TestAsyncAPIReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	doc := asyncAPI(t)
	if doc.AsyncAPI != "3.0.0" {
		t.Errorf("asyncapi is %q, want 3.0.0", doc.AsyncAPI)
	}
	for name, message := range doc.Components.Messages {
		file := message.Payload.Ref
		if !slices.Contains(files(t, "."), file) || subject(file) != message.Name {
			t.Errorf("message %s: payload %q is not the schema of %q", name, file, message.Name)
		}
	}
	for name, channel := range doc.Channels {
		for _, message := range channel.Messages {
			if _, ok := doc.Components.Messages[strings.TrimPrefix(message.Ref, "#/components/messages/")]; !ok {
				t.Errorf("channel %s: %s leads nowhere", name, message.Ref)
			}
		}
		for _, parameter := range channel.Parameters {
			if _, ok := doc.Components.Parameters[strings.TrimPrefix(parameter.Ref, "#/components/parameters/")]; !ok {
				t.Errorf("channel %s: %s leads nowhere", name, parameter.Ref)
			}
		}
	}
	for name, operation := range doc.Operations {
		if _, ok := doc.Channels[strings.TrimPrefix(operation.Channel.Ref, "#/channels/")]; !ok {
			t.Errorf("operation %s: %s leads nowhere", name, operation.Channel.Ref)
		}
		if operation.Action != "send" && operation.Action != "receive" {
			t.Errorf("operation %s: action is %q", name, operation.Action)
		}
	}
}

func TestAsyncAPIParametersAreThoseOfTheAddress(t *testing.T) {
	t.Parallel()
	placeholder := regexp.MustCompile(`\{(\w+)\}`)
	for name, channel := range asyncAPI(t).Channels {
		var inAddress []string
		for _, match := range placeholder.FindAllStringSubmatch(channel.Address, -1) {
			inAddress = append(inAddress, match[1])
		}
		slices.Sort(inAddress)
		if declared := slices.Sorted(maps.Keys(channel.Parameters)); !slices.Equal(declared, inAddress) {
			t.Errorf("channel %s declares %v, its address has %v", name, declared, inAddress)
		}
	}
}

func TestAsyncAPIFramesCarryEveryEvent(t *testing.T) {
	t.Parallel()
	doc := asyncAPI(t)
	for _, channel := range []string{"event", "liveEvent"} {
		var got []event.Name
		for name := range doc.Channels[channel].Messages {
			got = append(got, event.Name(name))
		}
		if slices.Sort(got); !slices.Equal(got, event.Names()) {
			t.Errorf("channel %s carries %v, want %v", channel, got, event.Names())
		}
	}
}

func TestAsyncAPIHasEverySubjectOfTheArchitecture(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| [A-Za-z ]*\\| `([a-z]+\\.<[^`]+)` \\|")
	subjects := row.FindAllStringSubmatch(string(text), -1)
	if len(subjects) < 8 {
		t.Fatalf("found %d subjects in ARCHITECTURE.md; has the table changed its form?", len(subjects))
	}
	var addresses []string
	for _, channel := range asyncAPI(t).Channels {
		addresses = append(addresses, channel.Address)
	}
	for _, match := range subjects {
		address := "agentbus." + strings.NewReplacer("<", "{", ">", "}").Replace(match[1])
		if !slices.Contains(addresses, address) {
			t.Errorf("ARCHITECTURE.md names %s, asyncapi.yaml has no channel %s", match[1], address)
		}
	}
}
