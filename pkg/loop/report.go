package loop

import (
	"context"
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/transcript"
	jsonv2 "github.com/go-json-experiment/json"
)

// FinalAnswer is the tool with which a model concludes its work by a report. The tool never runs: its arguments are the
// report, which is streamed to clients, and which ends the request as any answer does.
func FinalAnswer() tool.Spec {
	return tool.Spec{
		Name:        "final_answer",
		Description: "Gives the user the report that concludes your work. It ends the work: call it last, and alone.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"title":{"type":"string","maxLength":200},` +
			`"format":{"type":"string","enum":["markdown","text","html"],"description":"How the content is written."},` +
			`"kind":{"type":"string","enum":["answer","research"],` +
			`"description":"\"research\" when it sums up what you found in many sources."},` +
			`"content":{"type":"string","minLength":1}},` +
			`"required":["content"],"additionalProperties":false}`),
		Effect:   tool.EffectNone,
		Approval: tool.ApprovalNever,
	}
}

// conclude rejects a call that is not a valid report.
func conclude(context.Context, reportArgs, tool.Call) (tool.Result, error) {
	return tool.Result{}, apierr.New(apierr.ToolError, "call final_answer with its content")
}

type reportArgs struct {
	Title   string `json:"title,omitempty"`
	Format  string `json:"format,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Content string `json:"content"`
}

// report is a final answer that is being written.
type report struct {
	scanner jsonStringScanner // of the arguments
	begun   bool
	title   string
	format  string
	kind    string // event.ReportResearch or ""
}

// kindOf returns the kind of a report from the kind that the model gave.
func kindOf(said string) string {
	if said != event.ReportResearch {
		return ""
	}
	return said
}

// isFinalAnswer reports whether a call is a final answer.
func (r *run) isFinalAnswer(c backend.CallStart) bool {
	_, known := r.spec(c.Name)
	return known && c.Name == FinalAnswer().Name && c.Gate != backend.GateClient && c.Gate != backend.GateInput
}

// reportDelta writes the content that args add to a report.
func (s *turnWriter) reportDelta(d *draft, args string) error {
	text := clean(d.report.scanner.read([]byte(args)))
	if text == "" {
		return nil
	}
	if err := s.beginReport(d); err != nil {
		return err
	}
	for text != "" {
		piece := head(text, maxDeltaBytes)
		text = text[len(piece):]
		if err := s.add(d, piece); err != nil {
			return err
		}
	}
	return nil
}

func (s *turnWriter) beginReport(d *draft) error {
	r := d.report
	if r.begun {
		return nil
	}
	r.begun, r.title, r.format = true, clean(r.scanner.value("title")), clean(r.scanner.value("format"))
	r.kind = kindOf(r.scanner.value("kind"))
	return s.begin(d)
}

// endReport stops a report, or rejects it with an error for the model.
func (s *turnWriter) endReport(d *draft) error {
	var in reportArgs
	if err := jsonv2.Unmarshal(d.args, &in); err != nil || in.Content == "" {
		return s.retract(d)
	}
	if err := s.beginReport(d); err != nil {
		return err
	}
	d.report.title, d.report.format, d.report.kind = in.Title, in.Format, kindOf(in.Kind)
	if d.matched != nil {
		old := d.matched
		if old.Text == in.Content && old.Title == in.Title && old.Format == in.Format && old.Report == d.report.kind {
			return nil
		}
		if err := s.diverge(d); err != nil {
			return err
		}
	}
	stop := s.run.events.stop(d.blockID)
	return s.run.events.emit(event.FinalAnswer{
		Block: stop, Content: in.Content, Title: in.Title, Format: in.Format, Kind: d.report.kind,
	})
}

// retract discards a report and writes it as an ordinary tool call, whose result has the error.
func (s *turnWriter) retract(d *draft) error {
	if d.matched != nil {
		if err := s.run.events.discard(*d.matched, transcript.ReasonInvalid); err != nil {
			return err
		}
	} else if d.report.begun {
		given := transcript.Block{ID: d.blockID, Kind: d.kind}
		if err := s.run.events.discard(given, transcript.ReasonInvalid); err != nil {
			return err
		}
	}
	args := d.args
	*d = *s.newCall(backend.CallStart{Index: d.index, Name: FinalAnswer().Name})
	d.args = args
	if err := s.begin(d); err != nil {
		return err
	}
	if len(args) > 0 {
		if err := s.add(d, clean(string(args))); err != nil {
			return err
		}
	}
	return s.endCall(d)
}
