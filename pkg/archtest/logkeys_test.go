package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// logAliases are keys that pkg/telemetry names otherwise, with the right name.
func logAliases() map[string]string {
	return map[string]string{
		"request": "requestId", "thread": "threadId", "session": "threadId", "call": "toolCallId", "task": "taskId", "steer": "steerId",
		"key": "keyId", "action": "actionId", "agentId": "agent", "tenantId": "tenant",
	}
}

// logMethods are the methods of loggers, with the number of arguments before the first key, and the constructors of attributes.
func logMethods() map[string]int {
	return map[string]int{
		"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0,
		"String": 0, "Int": 0, "Int64": 0, "Any": 0,
	}
}

// TestLogKeysAreUniform checks that the same thing has the same key in the logs of all services: see pkg/telemetry/logkeys.go.
func TestLogKeysAreUniform(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"../../services", "../../pkg"} {
		err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				for _, literal := range logKeys(call) {
					if want := logAliases()[literal.Value]; want != "" {
						t.Errorf("%s: the log key is %q, want %q", set.Position(literal.Pos()), literal.Value, want)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// logKeys returns the literal keys of a call of a logger, or of a constructor of package slog, without quotes.
func logKeys(call *ast.CallExpr) (keys []ast.BasicLit) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	from, known := logMethods()[selector.Sel.Name]
	owner, _ := selector.X.(*ast.Ident)
	isSlog := owner != nil && owner.Name == "slog"
	if !known || from == 0 && selector.Sel.Name != "With" && !isSlog {
		return nil
	}
	for i := from; i+1 < len(call.Args); i += 2 {
		literal, ok := call.Args[i].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		if text, err := strconv.Unquote(literal.Value); err == nil {
			keys = append(keys, ast.BasicLit{ValuePos: literal.Pos(), Value: text})
		}
	}
	return keys
}
