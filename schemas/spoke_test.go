package schemas_test

import (
	"reflect"
	"testing"

	"github.com/agentbus/agentbus/pkg/spoke"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
)

const spokeFile = "spoke/openapi.yaml"

func TestSpokeDocumentIsValid(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(read(t, spokeFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSpokeTypesAgreeWithGo(t *testing.T) {
	t.Parallel()
	var doc any
	if err := yaml.Unmarshal(read(t, spokeFile), &doc); err != nil {
		t.Fatal(err)
	}
	c := comparison{documents{spokeFile: doc}, goConstants(t, "spoke")}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[spoke.Assignment](), reflect.TypeFor[spoke.Task](), reflect.TypeFor[spoke.TaskList](),
		reflect.TypeFor[spoke.Cancellation](), reflect.TypeFor[spoke.Info](), reflect.TypeFor[spoke.Machine](),
		reflect.TypeFor[spoke.SDK](), reflect.TypeFor[spoke.Health](), reflect.TypeFor[spoke.Rotation](),
		reflect.TypeFor[spoke.Rotated](), reflect.TypeFor[spoke.Refusal](), reflect.TypeFor[spoke.TextDelta](),
		reflect.TypeFor[spoke.ToolStart](), reflect.TypeFor[spoke.ToolOutput](), reflect.TypeFor[spoke.ToolEnd](),
		reflect.TypeFor[spoke.Progress](), reflect.TypeFor[spoke.Result](), reflect.TypeFor[spoke.Failure](),
		reflect.TypeFor[spoke.Registration](), reflect.TypeFor[spoke.Heartbeat](), reflect.TypeFor[spoke.Completion](),
	} {
		c.compare(t, typ.Name(), typ, c.docs.follow(t, spokeFile, "#/components/schemas/"+typ.Name()))
	}
}
