package cli

import (
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
)

func TestWhatUsersSayIsNoOption(t *testing.T) {
	t.Parallel()
	says := ask{Model: "--yolo", Prompt: "-rf", Session: backend.State{ID: "s1"}}
	tests := []struct {
		name    string
		backend *Backend
		want    string // among the arguments
	}{
		{"the model of Claude Code", Claude(Options{}), "--model=--yolo"},
		{"the model of Codex", Codex(Options{}), "--model=--yolo"},
		{"the model of OpenCode", OpenCode(Options{}), "--model=--yolo"},
		{"the model of another one", New(Options{Args: []string{"-m", "{model}"}}), " --yolo"},
		{"the prompt of another one", New(Options{Args: []string{"{prompt}"}}), " -rf"},
		{"a prompt within an argument", New(Options{Args: []string{"--ask={prompt}"}}), "--ask=-rf"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args, _ := test.backend.program.tell(test.backend.options, says)
			if !slices.Contains(args, test.want) || slices.Contains(args, "--yolo") || slices.Contains(args, "-rf") {
				t.Errorf("got %q, want %q in it", args, test.want)
			}
		})
	}
}
