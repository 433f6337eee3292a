package files_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/files"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
	"github.com/go-json-experiment/json/jsontext"
)

// place is a workspace with a few files in it, and a secret outside.
func place(t *testing.T) files.Options {
	t.Helper()
	base := t.TempDir()
	root := filepath.Join(base, "root")
	for name, content := range map[string]string{
		"secret": "the secret", "root/a.txt": "one\ntwo\nthree\n", "root/sub/b.go": "package b\n// TODO two\n",
		"root/binary": "\x00\xff", "root/large": strings.Repeat("x", 2000), "root/empty": "",
	} {
		write(t, filepath.Join(base, name), content)
	}
	for name, target := range map[string]string{"out": "../secret", "abs": filepath.Join(base, "secret"), "in": "a.txt", "up": ".."} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	return files.Options{Root: root, Shared: true, MaxFile: 1000}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func all(o files.Options) map[string]tool.Tool {
	tools := map[string]tool.Tool{}
	for _, subject := range append(files.Reading(o), files.Writing(o)...) {
		tools[subject.Spec().Name] = subject
	}
	return tools
}

func call(t *testing.T, subject tool.Tool, args string, caller tool.Caller) (string, error) {
	t.Helper()
	result, err := subject.Call(t.Context(), tool.Call{ID: "call_1", Args: json.RawMessage(args), Progress: func(string) {}, For: caller})
	return result.Content, err
}

func TestTools(t *testing.T) {
	t.Parallel()
	for name, cases := range map[string]tooltest.Cases{
		"read_file":    {Good: []string{`{"path":"a.txt"}`, `{"path":"./sub/../in"}`}, Bad: []string{`{}`, `{"path":""}`, `{"path":"a.txt","from":0}`}},
		"list_files":   {Good: []string{`{}`, `{"path":"sub","depth":3}`}, Bad: []string{`{"depth":0}`, `{"path":"gone"}`}},
		"search_files": {Good: []string{`{"pattern":"two"}`}, Bad: []string{`{"pattern":"("}`, `{"pattern":"x","name":"["}`, `{}`}},
		"write_file":   {Good: []string{`{"path":"new/x.txt","content":"hi"}`}, Bad: []string{`{"path":"x"}`, `{"path":"sub","content":""}`}},
		"edit_file":    {Good: []string{`{"path":"a.txt","old":"two","new":"two"}`}, Bad: []string{`{"path":"a.txt","old":"","new":"x"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tooltest.Run(t, all(place(t))[name], cases)
		})
	}
}

func TestNothingLeadsOutOfTheWorkspace(t *testing.T) {
	t.Parallel()
	o := place(t)
	tools := all(o)
	for _, path := range []string{"../secret", "sub/../../secret", "out", "abs", "up/secret", "up/root/a.txt", "/etc/passwd", "a.txt/../../secret", "\x00"} {
		quoted, err := jsontext.AppendQuote(nil, path)
		if err != nil {
			t.Fatal(err)
		}
		for name, args := range map[string]string{
			"read_file": `{"path":` + string(quoted) + `}`, "list_files": `{"path":` + string(quoted) + `}`,
			"search_files": `{"pattern":"secret","path":` + string(quoted) + `}`,
			"write_file":   `{"path":` + string(quoted) + `,"content":"x"}`,
			"edit_file":    `{"path":` + string(quoted) + `,"old":"secret","new":"x"}`,
		} {
			content, err := call(t, tools[name], args, tool.Caller{})
			if apierr.CodeOf(err) != apierr.ToolError || strings.Contains(content, "secret") {
				t.Errorf("%s %s: got %q, %v", name, args, content, err)
				continue
			}
			if message := apierr.From(err).Message; strings.Contains(message, o.Root) {
				t.Errorf("%s %s: %q says where the workspace is", name, args, message)
			}
		}
	}
	secret, err := os.ReadFile(filepath.Join(filepath.Dir(o.Root), "secret"))
	if err != nil || string(secret) != "the secret" {
		t.Errorf("got %q, %v", secret, err)
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, tool, args, want, wrong string }{
		{"a file", "read_file", `{"path":"a.txt"}`, "one\ntwo\nthree\n", ""},
		{"some lines", "read_file", `{"path":"a.txt","from":2,"lines":1}`, "two\n", ""},
		{"an empty file", "read_file", `{"path":"empty"}`, "", ""},
		{"lines that are not there", "read_file", `{"path":"a.txt","from":4}`, "", "has 3 lines"},
		{"a link within", "read_file", `{"path":"in"}`, "one\ntwo\nthree\n", ""},
		{"a folder is not a file", "read_file", `{"path":"sub"}`, "", "is not a file"},
		{"a pipe is not a file", "read_file", `{"path":"pipe"}`, "", "is not a file"},
		{"what is too large", "read_file", `{"path":"large"}`, "", "larger than the 1000 bytes"},
		{"what is not a text", "read_file", `{"path":"binary"}`, "", "is not a text"},
		{"what is not there", "read_file", `{"path":"gone"}`, "", "list_files shows"},
		{
			"one level", "list_files", `{}`,
			"a.txt (14 bytes)\nabs (no file)\nbinary (2 bytes)\nempty (0 bytes)\nin (no file)\nlarge (2000 bytes)\nout (no file)\npipe (no file)\nsub/\nup (no file)", "",
		},
		{"a folder", "list_files", `{"path":"sub/","depth":2}`, "sub/b.go (22 bytes)", ""},
		{"lines that match", "search_files", `{"pattern":"(?i)TWO"}`, "a.txt:2: two\nsub/b.go:2: // TODO two", ""},
		{"lines of files by name", "search_files", `{"pattern":"two","name":"*.go"}`, "sub/b.go:2: // TODO two", ""},
		{"nothing that matches", "search_files", `{"pattern":"secret"}`, "(nothing found)", ""},
		{"a new file in a new folder", "write_file", `{"path":"x/y/z.txt","content":"hi"}`, "wrote 2 bytes to x/y/z.txt", ""},
		{"a file in the place of a folder", "write_file", `{"path":"sub","content":"hi"}`, "", "is there and no file"},
		{"a file in the place of a link", "write_file", `{"path":"out","content":"hi"}`, "", "is there and no file"},
		{"too much", "write_file", `{"path":"x","content":"` + strings.Repeat("x", 1001) + `"}`, "", "at most 1000"},
		{"a piece", "edit_file", `{"path":"a.txt","old":"two","new":"2"}`, "replaced 1 pieces of a.txt", ""},
		{"a piece that is not there", "edit_file", `{"path":"a.txt","old":"four","new":"4"}`, "", "does not contain"},
		{"a piece that is there twice", "edit_file", `{"path":"a.txt","old":"e\n","new":"E\n"}`, "", "2 times"},
		{
			"pieces that would make a small file huge", "edit_file",
			`{"path":"large","old":"x","new":"` + strings.Repeat("y", 1000) + `","all":true}`, "", "larger than the 1000 bytes",
		},
		{
			"pieces that would make a file too large", "edit_file",
			`{"path":"a.txt","old":"e","new":"` + strings.Repeat("y", 500) + `","all":true}`, "", "would have 1511 bytes",
		},
		{"all of them", "edit_file", `{"path":"a.txt","old":"e\n","new":"E\n","all":true}`, "replaced 2 pieces of a.txt", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := call(t, all(place(t))[test.tool], test.args, tool.Caller{})
			if test.wrong == "" && (err != nil || got != test.want) {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
			if test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
				t.Errorf("got %q, %v; want %q", got, err, test.wrong)
			}
		})
	}
}

func TestWritesAreAtomic(t *testing.T) {
	t.Parallel()
	o := place(t)
	script := filepath.Join(o.Root, "run.sh")
	write(t, script, "#!/bin/sh\necho old\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, all(o)["edit_file"], `{"path":"run.sh","old":"old","new":"new"}`, tool.Caller{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(script)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %v, %v; an edit keeps it", info.Mode(), err)
	}
	drafts, err := filepath.Glob(filepath.Join(o.Root, ".draft*"))
	if err != nil || len(drafts) > 0 {
		t.Errorf("left behind: %v, %v", drafts, err)
	}
}

func TestEachThreadHasItsOwnFiles(t *testing.T) {
	t.Parallel()
	o := files.Options{Root: filepath.Join(t.TempDir(), "not", "yet")}
	tools := all(o)
	ann, bob := tool.Caller{Tenant: "t", ThreadID: "thr_ann"}, tool.Caller{Tenant: "t", ThreadID: "thr_bob"}
	if _, err := call(t, tools["write_file"], `{"path":"x","content":"of ann"}`, ann); err != nil {
		t.Fatal(err)
	}
	if got, err := call(t, tools["read_file"], `{"path":"x"}`, ann); err != nil || got != "of ann" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, args := range []string{`{"path":"x"}`, `{"path":"../thr_ann/x"}`} {
		if got, err := call(t, tools["read_file"], args, bob); err == nil {
			t.Errorf("%s: got %q", args, got)
		}
	}
	for _, nobody := range []tool.Caller{{}, {Tenant: "t", ThreadID: ".."}, {Tenant: "..", ThreadID: "x"}} {
		if _, err := call(t, tools["list_files"], `{}`, nobody); apierr.CodeOf(err) != apierr.ToolError {
			t.Errorf("%+v: got %v", nobody, err)
		}
	}
}

func TestWritingNeedsApproval(t *testing.T) {
	t.Parallel()
	for name, subject := range all(place(t)) {
		want := tool.ApprovalNever
		if name == "write_file" || name == "edit_file" {
			want = tool.ApprovalAlways
		}
		if got := subject.Spec().Approval; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
