package schemas_test

import (
	"reflect"
	"testing"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
)

const agentServerFile = "agent-server/openapi.yaml"

func TestAgentServerDocumentIsValid(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(read(t, agentServerFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAgentServerTypesAgreeWithGo(t *testing.T) {
	t.Parallel()
	var doc any
	if err := yaml.Unmarshal(read(t, agentServerFile), &doc); err != nil {
		t.Fatal(err)
	}
	c := comparison{documents{agentServerFile: doc}, goConstants(t, "remoteagent")}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[remoteagent.Assignment](), reflect.TypeFor[remoteagent.Task](), reflect.TypeFor[remoteagent.TaskList](),
		reflect.TypeFor[remoteagent.Cancellation](), reflect.TypeFor[remoteagent.Info](), reflect.TypeFor[remoteagent.Machine](),
		reflect.TypeFor[remoteagent.SDK](), reflect.TypeFor[remoteagent.Health](), reflect.TypeFor[remoteagent.Rotation](),
		reflect.TypeFor[remoteagent.Rotated](), reflect.TypeFor[remoteagent.Refusal](), reflect.TypeFor[remoteagent.TextDelta](),
		reflect.TypeFor[remoteagent.ToolStart](), reflect.TypeFor[remoteagent.ToolOutput](), reflect.TypeFor[remoteagent.ToolEnd](),
		reflect.TypeFor[remoteagent.Progress](), reflect.TypeFor[remoteagent.Result](), reflect.TypeFor[remoteagent.Failure](),
		reflect.TypeFor[remoteagent.Action](), reflect.TypeFor[remoteagent.Answer](), reflect.TypeFor[remoteagent.ActionRequired](),
		reflect.TypeFor[remoteagent.Registration](), reflect.TypeFor[remoteagent.Heartbeat](), reflect.TypeFor[remoteagent.Completion](),
	} {
		c.compare(t, typ.Name(), typ, c.docs.follow(t, agentServerFile, "#/components/schemas/"+typ.Name()))
	}
}
