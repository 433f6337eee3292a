// Package clock is a built-in tool that returns the current time.
package clock

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	_ "time/tzdata" // for images without a time zone database

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Name is the tool's name.
const Name = "clock"

const schema = `{
	"type": "object",
	"properties": {
		"timezone": {
			"type": "string", "minLength": 1, "maxLength": 64,
			"description": "IANA name of the time zone, such as Europe/Paris. Default: UTC."
		}
	},
	"additionalProperties": false
}`

// args has its time zone as a name of the IANA database.
type args struct {
	Timezone string `json:"timezone,omitzero"`
}

// New returns the tool. It reads the time from now, such as time.Now.
func New(now func() time.Time) tool.Tool {
	spec := tool.Spec{
		Name:        Name,
		Description: "Returns the current date, time and day of the week in a time zone.",
		Schema:      json.RawMessage(schema),
		Effect:      tool.EffectNone,
		Approval:    tool.ApprovalNever,
		Timeout:     5 * time.Second,
	}
	return tool.Func(spec, func(_ context.Context, in args, _ tool.Call) (tool.Result, error) {
		zone, err := load(in.Timezone)
		if err != nil {
			return tool.Result{}, err
		}
		text := now().In(zone).Format("Monday 2006-01-02T15:04:05Z07:00") + " (" + zone.String() + ")"
		return tool.Result{Content: text, Summary: text}, nil
	})
}

func load(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if strings.EqualFold(name, "local") { // would be the zone of whatever machine this is
		return nil, unknown(name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknown(name)
	}
	return zone, nil
}

func unknown(name string) error {
	return apierr.New(apierr.ToolError, "no time zone is called %q; expected an IANA name such as Europe/Paris or UTC", name)
}
