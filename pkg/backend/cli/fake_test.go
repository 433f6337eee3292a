package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// The test binary is also the program that the tests run: with fakeVariable set it does what its prompt says.
const fakeVariable = "FAKE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(fakeVariable) != "" {
		os.Exit(fake())
	}
	os.Exit(m.Run())
}

// fake reads its prompt, of which the last line that begins with a verb says what to do, and returns its exit code. It also leaves its arguments
// and its prompt in files of its folder, for the test.
func fake() int {
	if slices.Contains(os.Args, "--permission-prompt-tool") {
		return dialogue()
	}
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 90
	}
	leave("args", strings.Join(os.Args[1:], "\n"))
	leave("prompt", string(stdin))
	leave("env", strings.Join(os.Environ(), "\n"))
	lines := strings.Split(string(stdin), "\n")
	for _, line := range slices.Backward(lines) {
		verb, rest, _ := strings.Cut(line, " ")
		if do, ok := verbs()[verb]; ok {
			return do(rest)
		}
	}
	return 93
}

func verbs() map[string]func(string) int {
	return map[string]func(string) int{
		"replay":  replay,
		"session": func(string) int { return remembers() },
		"endless": func(string) int { return endless() },
		"flood":   func(string) int { return flood() },
		"say": func(text string) int {
			fmt.Fprintln(os.Stdout, text)
			return 0
		},
		"deaf": func(string) int { // to SIGTERM
			signal.Ignore(syscall.SIGTERM)
			child()
			return endless()
		},
		"silent": func(string) int {
			time.Sleep(time.Hour)
			return 0
		},
		"stall": func(string) int {
			for {
				fmt.Fprintln(os.Stdout, `{"type":"error","message":"Reconnecting... waiting for network"}`)
				time.Sleep(5 * time.Millisecond)
			}
		},
		"die": func(why string) int {
			fmt.Fprintln(os.Stderr, "\x1b[91mError: \x1b[0m"+why+"\n\nStack backtrace:\n  0: <unknown>")
			return 3
		},
		"orphan": func(string) int { // leaves a child behind that holds its output
			child()
			fmt.Fprintln(os.Stdout, "done")
			return 0
		},
	}
}

func leave(name, text string) {
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		panic(err)
	}
}

// replay prints a recording. A program that is to resume a session it has no recording of says so.
func replay(name string) int {
	archive, err := txtar.ParseFile(filepath.Join(os.Getenv(fakeVariable), "wire", "testdata", name+".txtar"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 91
	}
	if _, err := os.Stdout.Write(archive.Files[0].Data); err != nil {
		return 92
	}
	if strings.Contains(name, "max-") || strings.Contains(name, "missing") {
		return 1
	}
	return 0
}

// dialogue is Claude Code in its stream format: it asks for the permission of each call that its prompt names, one in a line, until
// one interrupts it, and leaves its input in a file.
func dialogue() int {
	input := bufio.NewScanner(os.Stdin)
	var prompt struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
	}
	if !input.Scan() || json.Unmarshal(input.Bytes(), &prompt) != nil {
		return 96
	}
	log := input.Text()
	say := func(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
	say(`{"type":"system","subtype":"init","session_id":"s1","model":"m1"}`)
	end, code := `"subtype":"success","result":"done"`, 0
	for i, line := range strings.Split(prompt.Message.Content, "\n") {
		tool, args, asks := strings.Cut(line, " ")
		if tool == "deaf" { // to responses
			for n := range 1000 {
				say(`{"type":"control_request","request_id":"r%d","request":{"subtype":"initialize"}}`, n)
			}
			select {}
		}
		if tool == "die" {
			return 3
		}
		if !asks || !json.Valid([]byte(args)) {
			continue
		}
		say(`{"type":"assistant","message":{"id":"m%[1]d","content":[{"type":"tool_use","id":"t%[1]d","name":"%[2]s","input":%[3]s}]}}`, i, tool, args)
		say(`{"type":"control_request","request_id":"r%[1]d","request":{"subtype":"can_use_tool","tool_name":"%[2]s","input":%[3]s,"tool_use_id":"t%[1]d"}}`,
			i, tool, args)
		if !input.Scan() {
			return 97
		}
		log += "\n" + input.Text()
		allowed := strings.Contains(input.Text(), `"behavior":"allow"`)
		say(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":"allowed: %[2]t","is_error":%[3]t}]}}`, i, allowed, !allowed)
		if strings.Contains(input.Text(), `"interrupt":true`) {
			end, code = `"subtype":"error_during_execution","is_error":true`, 1
			break
		}
	}
	leave("dialog", log)
	say(`{"type":"result",%s,"session_id":"s1"}`, end)
	if input.Scan() { // it ends with its input
		return 98
	}
	return code
}

// remembers is an agent with the output of Claude Code that knows the sessions it has begun, and no other.
func remembers() int {
	const name = "5e55104e-0000-4000-8000-000000000001"
	known := "sessions"
	if i := slices.Index(os.Args, "--resume"); i > 0 {
		if _, err := os.Stat(known); err != nil {
			return replay("claude-resume-missing")
		}
	}
	leave(known, name)
	fmt.Fprintf(os.Stdout, `{"type":"system","subtype":"init","session_id":"%s","model":"m1"}`+"\n", name)
	fmt.Fprintf(os.Stdout, `{"type":"result","subtype":"success","result":"hello","session_id":"%s","total_cost_usd":0.25,`+
		`"modelUsage":{"m1":{"inputTokens":3,"outputTokens":2}}}`+"\n", name)
	return 0
}

// endless says something in the format of each program, of which each decoder knows one.
func endless() int {
	for n := 0; ; n++ {
		_, err := fmt.Fprintf(os.Stdout, `{"type":"assistant","message":{"id":"m%[1]d","content":[{"type":"text","text":"more "}]}}
{"type":"item.completed","item":{"id":"i%[1]d","type":"agent_message","text":"more"}}
{"type":"text","part":{"id":"p%[1]d","text":"more"}}
`, n)
		if err != nil {
			return 94
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func flood() int {
	block := strings.Repeat("x", 1<<20)
	for {
		if _, err := os.Stdout.WriteString(block); err != nil {
			return 95
		}
	}
}

// child starts a program that outlives this one unless it is ended, and leaves its process id.
func child() {
	cmd := exec.Command("sleep", "3600")
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	leave("child", fmt.Sprint(cmd.Process.Pid))
}
