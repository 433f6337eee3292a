package files

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
)

// The bounds of what one call gives.
const (
	maxEntries = 1000
	maxMatches = 200
	maxLine    = 300 // bytes of a line that matches
	maxVisits  = 50_000
)

func (w workspace) read() tool.Tool {
	type args struct {
		Path  string `json:"path"`
		From  int    `json:"from,omitzero"`
		Lines int    `json:"lines,omitzero"`
	}
	return define(w, tool.Spec{
		Name: "read_file", Description: "Reads a file of text from the workspace.",
		Effect: tool.EffectNone, Approval: tool.ApprovalNever,
	}, `{"type":"object","properties":{
		"path":{"type":"string","minLength":1,"maxLength":1024,"description":"Relative to the workspace, such as notes/today.md."},
		"from":{"type":"integer","minimum":1,"description":"The first line to read; 1 is the first of the file."},
		"lines":{"type":"integer","minimum":1,"description":"How many lines to read; default all."}},
		"required":["path"],"additionalProperties":false}`,
		func(_ context.Context, f folder, in args) (tool.Result, error) {
			text, _, err := f.text(in.Path)
			if err != nil {
				return tool.Result{}, err
			}
			all := strings.SplitAfter(text, "\n")
			if all[len(all)-1] == "" {
				all = all[:len(all)-1]
			}
			from := max(in.From, 1) - 1
			if from > 0 && from >= len(all) {
				return tool.Result{}, apierr.New(apierr.ToolError, "%.200q has %d lines", in.Path, len(all))
			}
			lines := all[from:]
			if in.Lines > 0 {
				lines = lines[:min(in.Lines, len(lines))]
			}
			return tool.Result{
				Content: strings.Join(lines, ""), Summary: fmt.Sprintf("%s: %d of %d lines", in.Path, len(lines), len(all)),
			}, nil
		})
}

func (w workspace) list() tool.Tool {
	type args struct {
		Path  string `json:"path,omitzero"`
		Depth int    `json:"depth,omitzero"`
	}
	return define(w, tool.Spec{
		Name: "list_files", Description: "Lists files and folders of the workspace, with sizes in bytes. Folders end in a slash.",
		Effect: tool.EffectNone, Approval: tool.ApprovalNever,
	}, `{"type":"object","properties":{
		"path":{"type":"string","maxLength":1024,"description":"A folder, relative to the workspace; default the workspace itself."},
		"depth":{"type":"integer","minimum":1,"maximum":20,"description":"How many levels to list; default 1."}},
		"additionalProperties":false}`,
		func(ctx context.Context, f folder, in args) (tool.Result, error) {
			var lines []string
			base := clean(in.Path)
			cut, err := f.walk(ctx, in.Path, func(name string, entry fs.DirEntry) (more bool, err error) {
				level := strings.Count(strings.TrimPrefix(name, base+"/"), "/") + 1
				if base == "." {
					level = strings.Count(name, "/") + 1
				}
				lines = append(lines, line(name, entry))
				if entry.IsDir() && level >= max(in.Depth, 1) {
					return len(lines) < maxEntries, fs.SkipDir
				}
				return len(lines) < maxEntries, nil
			})
			if err != nil {
				return tool.Result{}, err
			}
			summary := fmt.Sprintf("%d entries", len(lines))
			if len(lines) == 0 {
				lines = append(lines, "(empty)")
			}
			if cut {
				lines = append(lines, fmt.Sprintf("[cut: these are the first %d; list a folder of them]", len(lines)))
			}
			return tool.Result{Content: strings.Join(lines, "\n"), Summary: summary}, nil
		})
}

func line(name string, entry fs.DirEntry) string {
	switch info, err := entry.Info(); {
	case entry.IsDir():
		return name + "/"
	case err != nil || !entry.Type().IsRegular():
		return name + " (no file)"
	default:
		return fmt.Sprintf("%s (%d bytes)", name, info.Size())
	}
}

func (w workspace) search() tool.Tool {
	type args struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path,omitzero"`
		Name    string `json:"name,omitzero"`
	}
	return define(w, tool.Spec{
		Name: "search_files", Description: "Finds lines in the files of the workspace that match a regular expression.",
		Effect: tool.EffectNone, Approval: tool.ApprovalNever,
	}, `{"type":"object","properties":{
		"pattern":{"type":"string","minLength":1,"maxLength":500,"description":"A regular expression in RE2's syntax, such as (?i)todo."},
		"path":{"type":"string","maxLength":1024,"description":"A folder, relative to the workspace; default the workspace itself."},
		"name":{"type":"string","maxLength":200,"description":"Only files with names like this, such as *.go."}},
		"required":["pattern"],"additionalProperties":false}`,
		func(ctx context.Context, f folder, in args) (tool.Result, error) {
			pattern, err := regexp.Compile(in.Pattern)
			if err != nil {
				return tool.Result{}, apierr.Wrap(err, apierr.ToolError, "the pattern cannot be read: %v", err)
			}
			if _, err := path.Match(in.Name, ""); err != nil {
				return tool.Result{}, apierr.Wrap(err, apierr.ToolError, "the name %.200q cannot be read; write one such as *.go", in.Name)
			}
			var found []string
			cut, err := f.walk(ctx, in.Path, func(name string, entry fs.DirEntry) (more bool, err error) {
				if fits, _ := path.Match(in.Name, path.Base(name)); entry.Type().IsRegular() && (fits || in.Name == "") {
					found = f.matches(found, name, pattern)
				}
				return len(found) < maxMatches, nil
			})
			if err != nil {
				return tool.Result{}, err
			}
			summary := fmt.Sprintf("%d lines", len(found))
			if len(found) == 0 {
				found = append(found, "(nothing found)")
			}
			if cut {
				found = append(found, "[cut: there may be more; search a folder, or for less]")
			}
			return tool.Result{Content: strings.Join(found, "\n"), Summary: summary}, nil
		})
}

// matches adds the lines of a file that match. A file that is not text, or is too large, has none.
func (f folder) matches(found []string, name string, pattern *regexp.Regexp) []string {
	text, _, err := f.text(name)
	if err != nil {
		return found
	}
	for i, l := range strings.Split(text, "\n") {
		if len(found) == maxMatches {
			break
		}
		if pattern.MatchString(l) {
			found = append(found, fmt.Sprintf("%s:%d: %s", name, i+1, strings.ToValidUTF8(l[:min(len(l), maxLine)], "")))
		}
	}
	return found
}

// walk visits what is in a folder, symbolic links as what they are. It reports whether it stopped before the end.
func (f folder) walk(
	ctx context.Context, start string, visit func(name string, entry fs.DirEntry) (more bool, err error),
) (cut bool, err error) {
	visits := 0
	err = fs.WalkDir(f.FS(), clean(start), func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if name == clean(start) {
			return err // the folder itself, or why it cannot be read
		}
		if err != nil {
			return nil //nolint:nilerr // a folder in it that cannot be read is one that is not looked into
		}
		visits++
		more, err := visit(name, entry)
		if !more || visits == maxVisits {
			cut = true
			return fs.SkipAll
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return false, explain(start, err)
	}
	return cut, err
}
