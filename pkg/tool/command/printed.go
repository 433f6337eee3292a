package command

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/agentbus/agentbus/pkg/tool"
)

// printed keeps the beginning of a program's output, and reports it as progress. It is for one writer at a time.
type printed struct {
	text     []byte
	room     int64
	dropped  int64
	progress func(string)
}

// Write never fails: output over the limit is dropped, and the program continues.
func (o *printed) Write(piece []byte) (int, error) {
	keep := min(int64(len(piece)), o.room)
	o.text = append(o.text, piece[:keep]...)
	o.room -= keep
	o.dropped += int64(len(piece)) - keep
	if keep > 0 {
		o.progress(strings.ToValidUTF8(string(piece[:keep]), "\uFFFD"))
	}
	return len(piece), nil
}

// result puts an unsuccessful exit status before the text, so that a model does not read error messages as an answer.
func (o *printed) result(exit *exec.ExitError) tool.Result {
	text := strings.ToValidUTF8(string(o.text), "\uFFFD")
	if o.dropped > 0 {
		text += fmt.Sprintf("\n[cut: %d more bytes]", o.dropped)
	}
	summary := fmt.Sprintf("%d bytes", int64(len(o.text))+o.dropped)
	switch {
	case exit == nil:
		return tool.Result{Content: text, Summary: summary}
	case exit.Exited():
		return tool.Result{Content: fmt.Sprintf("[%s]\n%s", exit, text), Summary: fmt.Sprintf("%s, %s", exit, summary)}
	default: // a signal
		return tool.Result{
			Content: fmt.Sprintf("[%s: it may have used more than it may]\n%s", exit, text), Summary: fmt.Sprintf("%s, %s", exit, summary),
		}
	}
}
