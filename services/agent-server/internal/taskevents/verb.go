package taskevents

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// verb is what a tool does, derived from its name.
type verb int

const (
	using verb = iota
	running
	reading
	editing
	searching
)

// verbs maps the tools of common agents, without case and punctuation.
var verbs = map[string]verb{
	"bash": running, "shell": running, "exec": running, "command": running, "runcommand": running, "commandexecution": running,
	"read": reading, "readfile": reading, "fileread": reading, "view": reading, "notebookread": reading,
	"edit": editing, "multiedit": editing, "editfile": editing, "fileedit": editing, "notebookedit": editing,
	"write": editing, "writefile": editing, "filewrite": editing, "createfile": editing, "patch": editing,
	"applypatch": editing, "filechange": editing, "strreplace": editing,
	"glob": searching, "grep": searching, "search": searching, "searchfiles": searching, "filesearch": searching,
	"find": searching, "websearch": searching, "codesearch": searching,
}

// verbOf looks a tool up. A tool of a server of tools has the server's name before its own.
func verbOf(tool string) verb {
	if i := strings.LastIndex(tool, "__"); i >= 0 {
		tool = tool[i+2:]
	}
	return verbs[strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(tool))]
}

// Edits reports whether a tool changes files.
func Edits(tool string) bool { return verbOf(tool) == editing }

// Reads reports whether a tool only reads or searches files.
func Reads(tool string) bool { return verbOf(tool) == reading || verbOf(tool) == searching }

const maxActivity = 120

// activity is a line for people.
func (v verb) activity(tool, file string, args arguments) string {
	line := "Using " + tool
	switch {
	case v == running && args.command() != "":
		line = "Running: " + args.command()
	case v == reading && file != "":
		line = "Reading " + file
	case v == editing && file != "":
		line = "Editing " + file
	case v == searching && args.wanted() != "":
		line = "Searching for " + args.wanted()
	}
	line = strings.Join(strings.Fields(line), " ")
	if runes := []rune(line); len(runes) > maxActivity {
		return string(runes[:maxActivity-1]) + "…"
	}
	return line
}

// arguments are those of a call, as far as they are an object.
type arguments map[string]json.RawMessage

func argsOf(text json.RawMessage) arguments {
	var args arguments
	if jsonv2.Unmarshal(text, &args) != nil {
		return nil
	}
	return args
}

func (a arguments) text(names ...string) string {
	for _, name := range names {
		var text string
		if jsonv2.Unmarshal(a[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// files are those that a call is about.
func (a arguments) files() []string {
	if file := a.text("file_path", "filePath", "notebook_path", "file", "filename", "path"); file != "" {
		return []string{file}
	}
	var changes []struct {
		Path string `json:"path"`
	}
	if jsonv2.Unmarshal(a["changes"], &changes) != nil {
		return nil
	}
	var files []string
	for _, c := range changes {
		if c.Path != "" && !slices.Contains(files, filepath.Clean(c.Path)) {
			files = append(files, filepath.Clean(c.Path))
		}
	}
	return files
}

func (a arguments) command() string {
	if text := a.text("command", "cmd"); text != "" {
		return text
	}
	var words []string
	if jsonv2.Unmarshal(a["command"], &words) != nil {
		return ""
	}
	return strings.Join(words, " ")
}

func (a arguments) wanted() string { return a.text("pattern", "query", "q", "regex", "name") }
