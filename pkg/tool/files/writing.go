package files

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
)

func (w workspace) write() tool.Tool {
	type args struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	return define(w, tool.Spec{
		Name: "write_file", Description: "Writes a file of text into the workspace. One of the same path is replaced; folders are created.",
		Effect: tool.EffectIdempotent, Approval: tool.ApprovalAlways,
	}, `{"type":"object","properties":{
		"path":{"type":"string","minLength":1,"maxLength":1024,"description":"Relative to the workspace, such as notes/today.md."},
		"content":{"type":"string","description":"All that the file shall hold."}},
		"required":["path","content"],"additionalProperties":false}`,
		func(_ context.Context, f folder, in args) (tool.Result, error) {
			if err := f.replace(in.Path, in.Content, fileMode); err != nil {
				return tool.Result{}, err
			}
			text := fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path)
			return tool.Result{Content: text, Summary: text}, nil
		})
}

func (w workspace) edit() tool.Tool {
	type args struct {
		Path string `json:"path"`
		Old  string `json:"old"`
		New  string `json:"new"`
		All  bool   `json:"all,omitzero"`
	}
	return define(w, tool.Spec{
		Name: "edit_file", Description: "Replaces a piece of a file in the workspace. " +
			"The piece must occur exactly, and once unless all is true.",
		Effect: tool.EffectUnsafe, Approval: tool.ApprovalAlways,
	}, `{"type":"object","properties":{
		"path":{"type":"string","minLength":1,"maxLength":1024,"description":"Relative to the workspace, such as notes/today.md."},
		"old":{"type":"string","minLength":1,"description":"The piece, with enough of the text around it that it occurs once."},
		"new":{"type":"string","description":"The replacement."},
		"all":{"type":"boolean","description":"Replace all occurrences of the piece."}},
		"required":["path","old","new"],"additionalProperties":false}`,
		func(_ context.Context, f folder, in args) (tool.Result, error) {
			text, info, err := f.text(in.Path)
			if err != nil {
				return tool.Result{}, err
			}
			count := strings.Count(text, in.Old)
			switch {
			case count == 0:
				return tool.Result{}, apierr.New(apierr.ToolError, "%.200q does not contain the piece to replace; read the file again", in.Path)
			case count > 1 && !in.All:
				return tool.Result{}, apierr.New(apierr.ToolError,
					"%.200q contains the piece to replace %d times; give more of the text around it, or set all", in.Path, count)
			}
			if size := len(text) + count*(len(in.New)-len(in.Old)); int64(size) > f.max { // a small file may become a huge one
				return tool.Result{}, tooLarge(in.Path, size, f.max)
			}
			if err := f.replace(in.Path, strings.ReplaceAll(text, in.Old, in.New), info.Mode().Perm()); err != nil {
				return tool.Result{}, err
			}
			done := fmt.Sprintf("replaced %d pieces of %s", count, in.Path)
			return tool.Result{Content: done, Summary: done}, nil
		})
}
