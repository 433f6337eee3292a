package scripted

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Command is one line of a script: Say, Think, Stream, Use, Report, Emit, Sleep, Fail or Count.
type Command interface{ command() }

// Say streams a text word by word.
type Say struct{ Text string }

// Think streams a thought word by word.
type Think struct{ Text string }

// Stream sends many text deltas of the same size.
type Stream struct {
	Deltas int
	Rate   float64 // deltas in a second; 0 = as fast as it goes
	Bytes  int     // of one delta
}

// Use calls tools, all in one turn, and ends the turn.
type Use struct {
	Calls []Call
	Gate  backend.Gate
}

// Call is one call of a Use.
type Call struct {
	Name string
	Args json.RawMessage // an object
}

// Report streams a final answer.
type Report struct{ Args json.RawMessage } // of the call of FinalAnswer

// Emit emits an event of an application.
type Emit struct{ Event event.Custom }

// Sleep waits.
type Sleep struct{ For time.Duration }

// Fail ends the turn with an error.
type Fail struct {
	Code      apierr.Code
	Retryable bool
	Line      int
}

// Count adds to the usage of the turn, in place of the words that are counted otherwise.
type Count struct{ Usage event.Usage }

func (Say) command()    {}
func (Think) command()  {}
func (Stream) command() {}
func (Use) command()    {}
func (Report) command() {}
func (Emit) command()   {}
func (Sleep) command()  {}
func (Fail) command()   {}
func (Count) command()  {}

// The names of the calls that /ask, /plan and /answer make.
const (
	AskUser     = "ask_user"
	Planning    = "plan"
	FinalAnswer = "final_answer"
)

// The bounds of a script.
const (
	maxDeltas     = 1_000_000
	maxRate       = 1_000_000
	maxDeltaBytes = 64 << 10
	maxSleep      = 24 * time.Hour
	maxTokens     = 1_000_000_000
	defaultBytes  = 20
)

// form describes a command: how it is written, one example, and how the rest of its line is read.
type form struct {
	name    string
	syntax  string
	example string
	parse   func(rest string, line int) (Command, error)
}

// forms is the language.
func forms() []form {
	return []form{
		{"say", "/say TEXT", "/say hello", parseSay},
		{"think", "/think TEXT", "/think hm", parseThink},
		{"stream", "/stream N RATE [BYTES]", "/stream 100 20", parseStream},
		{"tool", "/tool NAME {json}", `/tool calculator {"expression":"6*7"}`, parseTool},
		{"tools", "/tools NAME {json}; NAME {json}", `/tools clock {}; calculator {"expression":"6*7"}`, parseTools},
		{"client-tool", "/client-tool NAME {json}", `/client-tool pick_color {}`, parseClientTool},
		{"approve", "/approve NAME {json}", `/approve http_get {"url":"https://example.com"}`, parseApprove},
		{"ask", "/ask QUESTION", "/ask Which city?", parseAsk},
		{"plan", "/plan STEP; STEP", "/plan look it up; answer", parsePlan},
		{"plan-done", "/plan-done N", "/plan-done 1", parsePlanDone},
		{"plan-finish", "/plan-finish SUMMARY", "/plan-finish all is done", parsePlanFinish},
		{"answer", "/answer TITLE | TEXT", "/answer Weather | It is sunny.", parseAnswer},
		{"custom", "/custom TYPE {json}", `/custom metric {"value":42}`, parseCustom},
		{"sleep", "/sleep DURATION", "/sleep 1.5s", parseSleep},
		{"fail", "/fail CODE [retryable]", "/fail agent_error retryable", parseFail},
		{"usage", "/usage IN OUT", "/usage 120 30", parseUsage},
	}
}

// IsScript reports whether a prompt is a script: its first line that is not blank starts with "/" and a letter.
func IsScript(prompt string) bool {
	prompt = strings.TrimLeft(prompt, " \t\r\n")
	return len(prompt) > 1 && prompt[0] == '/' && prompt[1] >= 'a' && prompt[1] <= 'z'
}

// Parse reads a script, one command a line; blank lines do not count. An error is a *apierr.Error that names the line and
// shows how it should look.
func Parse(script string) ([]Command, error) {
	var commands []Command
	var plan plan
	line := 0
	for text := range strings.Lines(script) {
		line++
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		c, err := parseLine(text, line)
		if err != nil {
			return nil, err
		}
		if c, err = plan.resolve(c); err != nil {
			return nil, apierr.New(apierr.AgentError, "script line %d: %v", line, err)
		}
		commands = append(commands, c)
	}
	return commands, nil
}

func parseLine(text string, line int) (Command, error) {
	name, rest, _ := strings.Cut(text, " ")
	all := forms()
	i := slices.IndexFunc(all, func(f form) bool { return "/"+f.name == name })
	if i < 0 {
		syntax := make([]string, len(all))
		for i, f := range all {
			syntax[i] = f.syntax
		}
		return nil, apierr.New(apierr.AgentError, "script line %d: %.40q is not a command; there are %s",
			line, name, strings.Join(syntax, " · "))
	}
	c, err := all[i].parse(strings.TrimSpace(rest), line)
	if err != nil {
		return nil, apierr.New(apierr.AgentError, "script line %d: %v; write %s, for example %s",
			line, err, all[i].syntax, all[i].example)
	}
	return c, nil
}

func parseSay(rest string, _ int) (Command, error) {
	if rest == "" {
		return nil, fmt.Errorf("there is nothing to say")
	}
	return Say{Text: rest}, nil
}

func parseThink(rest string, _ int) (Command, error) {
	if rest == "" {
		return nil, fmt.Errorf("there is nothing to think")
	}
	return Think{Text: rest}, nil
}

func parseStream(rest string, _ int) (Command, error) {
	words := strings.Fields(rest)
	if len(words) < 2 || len(words) > 3 {
		return nil, fmt.Errorf("it takes 2 or 3 numbers, not %d", len(words))
	}
	s := Stream{Bytes: defaultBytes}
	var err error
	if s.Deltas, err = parseInt("N", words[0], 1, maxDeltas); err != nil {
		return nil, err
	}
	if s.Rate, err = strconv.ParseFloat(words[1], 64); err != nil || !(s.Rate >= 0 && s.Rate <= maxRate) {
		return nil, fmt.Errorf("RATE %.20q is not a number from 0 to %d", words[1], maxRate)
	}
	if len(words) == 3 {
		s.Bytes, err = parseInt("BYTES", words[2], 1, maxDeltaBytes)
	}
	return s, err
}

func parseTool(rest string, _ int) (Command, error)       { return parseOne(rest, "") }
func parseClientTool(rest string, _ int) (Command, error) { return parseOne(rest, backend.GateClient) }
func parseApprove(rest string, _ int) (Command, error)    { return parseOne(rest, backend.GateApproval) }

func parseOne(rest string, gate backend.Gate) (Command, error) {
	call, rest, err := parseCall(rest)
	if err != nil {
		return nil, err
	}
	if rest != "" {
		return nil, fmt.Errorf("%.40q is left over", rest)
	}
	return Use{Calls: []Call{call}, Gate: gate}, nil
}

func parseTools(rest string, _ int) (Command, error) {
	var calls []Call
	for {
		call, left, err := parseCall(rest)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
		if left == "" {
			return Use{Calls: calls}, nil
		}
		if left[0] != ';' {
			return nil, fmt.Errorf("a \";\" is missing before %.40q", left)
		}
		rest = strings.TrimSpace(left[1:])
	}
}

// parseCall reads "NAME {json}" or "NAME" and returns the rest. A JSON decoder finds the end of the arguments, since
// their strings may contain ';' or '}'.
func parseCall(text string) (call Call, rest string, err error) {
	end := strings.IndexAny(text, " \t;{")
	if end < 0 {
		end = len(text)
	}
	name, rest := text[:end], strings.TrimLeft(text[end:], " \t")
	if !id.Valid(name) {
		return Call{}, "", fmt.Errorf("%.40q is not the name of a tool", name)
	}
	if rest == "" || rest[0] == ';' {
		return Call{Name: name, Args: json.RawMessage("{}")}, rest, nil
	}
	dec := jsontext.NewDecoder(strings.NewReader(rest))
	args, err := dec.ReadValue()
	if err != nil {
		return Call{}, "", fmt.Errorf("the arguments of %s are not JSON: %w", name, err)
	}
	if args.Kind() != '{' {
		return Call{}, "", fmt.Errorf("the arguments of %s are %.40s, not an object", name, args)
	}
	return Call{Name: name, Args: json.RawMessage(args.Clone())}, strings.TrimSpace(rest[dec.InputOffset():]), nil
}

func parseAsk(rest string, _ int) (Command, error) {
	if rest == "" {
		return nil, fmt.Errorf("the question is missing")
	}
	args, err := jsonv2.Marshal(struct {
		Question string `json:"question"`
	}{rest})
	if err != nil {
		return nil, fmt.Errorf("the question is not a text: %w", err)
	}
	return Use{Calls: []Call{{Name: AskUser, Args: args}}, Gate: backend.GateInput}, nil
}

func parseAnswer(rest string, _ int) (Command, error) {
	title, text, titled := strings.Cut(rest, "|")
	if !titled {
		title, text = "", rest
	}
	title, text = strings.TrimSpace(title), strings.TrimSpace(text)
	if text == "" {
		return nil, fmt.Errorf("the text of the answer is missing")
	}
	args, err := jsonv2.Marshal(struct {
		Title   string `json:"title,omitempty"`
		Format  string `json:"format"`
		Content string `json:"content"`
	}{title, "markdown", text})
	if err != nil {
		return nil, fmt.Errorf("the answer is not a text: %w", err)
	}
	return Report{Args: args}, nil
}

func parseCustom(rest string, _ int) (Command, error) {
	name, data, _ := strings.Cut(rest, " ")
	custom, err := event.NewCustom(name, json.RawMessage(strings.TrimSpace(data)))
	return Emit{Event: custom}, err
}

func parseSleep(rest string, _ int) (Command, error) {
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > maxSleep {
		return nil, fmt.Errorf("%.20q is not a duration from 0s to %s", rest, maxSleep)
	}
	return Sleep{For: d}, nil
}

func parseFail(rest string, line int) (Command, error) {
	code, flag, flagged := strings.Cut(rest, " ")
	c := apierr.Code(code)
	if !slices.Contains(apierr.Codes(), c) {
		return nil, fmt.Errorf("%.40q is not a code; there are %v", code, apierr.Codes())
	}
	if flagged && strings.TrimSpace(flag) != "retryable" {
		return nil, fmt.Errorf("%.40q is not \"retryable\"", flag)
	}
	return Fail{Code: c, Retryable: flagged || c.Retryable(), Line: line}, nil
}

func parseUsage(rest string, _ int) (Command, error) {
	words := strings.Fields(rest)
	if len(words) != 2 {
		return nil, fmt.Errorf("it takes 2 numbers, not %d", len(words))
	}
	in, err := parseInt("IN", words[0], 0, maxTokens)
	if err != nil {
		return nil, err
	}
	out, err := parseInt("OUT", words[1], 0, maxTokens)
	if err != nil {
		return nil, err
	}
	return Count{Usage: event.Usage{InputTokens: int64(in), OutputTokens: int64(out)}}, nil
}

func parseInt(what, word string, low, high int) (int, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s %.20q is not a number from %d to %d", what, word, low, high)
	}
	return n, nil
}
