package scripted

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// planning is a line about the plan. A call states the plan as a whole, so what the line means depends on those before.
type planning struct {
	steps   []event.PlanStep // the plan; nil = unchanged
	done    int              // the step that is done, from 1; 0 = none
	summary string           // finishes the plan
}

func (planning) command() {}

func parsePlan(rest string, _ int) (Command, error) {
	var p planning
	for step := range strings.SplitSeq(rest, ";") {
		if step = strings.TrimSpace(step); step != "" {
			p.steps = append(p.steps, event.PlanStep{Content: step})
		}
	}
	if len(p.steps) == 0 {
		return nil, fmt.Errorf("there is no step")
	}
	return p, nil
}

func parsePlanDone(rest string, _ int) (Command, error) {
	n, err := parseInt("N", rest, 1, maxSteps)
	return planning{done: n}, err
}

func parsePlanFinish(rest string, _ int) (Command, error) {
	if rest == "" {
		return nil, fmt.Errorf("the summary is missing")
	}
	return planning{summary: rest}, nil
}

// maxSteps is the most that a plan has.
const maxSteps = 100

// plan is the state of a script's plan.
type plan struct{ steps []event.PlanStep }

// resolve turns a line about the plan into the call that it makes; any other stays as it is.
func (p *plan) resolve(c Command) (Command, error) {
	line, ok := c.(planning)
	if !ok {
		return c, nil
	}
	if len(line.steps) > maxSteps {
		return nil, fmt.Errorf("the plan has %d steps; at most %d are allowed", len(line.steps), maxSteps)
	}
	if len(line.steps) == 0 && len(p.steps) == 0 {
		return nil, fmt.Errorf("there is no plan yet; write /plan STEP; STEP first")
	}
	if line.done > len(p.steps) {
		return nil, fmt.Errorf("there is no step %d; the plan has %d", line.done, len(p.steps))
	}
	switch {
	case line.summary != "":
		p.steps = nil
	case line.done > 0:
		p.steps = slices.Clone(p.steps)
		p.steps[line.done-1].Done = true
	default:
		p.steps = line.steps
	}
	args, err := jsonv2.Marshal(struct {
		Steps   []event.PlanStep `json:"steps,omitempty"`
		Summary string           `json:"summary,omitempty"`
	}{p.steps, line.summary})
	return Use{Calls: []Call{{Name: Planning, Args: json.RawMessage(args)}}}, err
}
