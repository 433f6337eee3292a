package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// A task that is given through the hub, or by a request to the remote agent, may write files if its permission mode permits
// that. Otherwise its end names what was denied.
func TestWorkForARemoteAgentHasItsPermissions(t *testing.T) {
	t.Parallel()
	o, root := newOffice(t, 0), t.TempDir()
	o.addAgent(t, "AGENT_ROOT="+root, "AGENT_MAX_PERMISSION_MODE=acceptEdits")
	write := func(file string) string {
		return "/tool write_file {\"path\":\"" + file + "\",\"content\":\"x\"}\n/say ended"
	}
	written := func(file string, want bool) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(root, file)); (err == nil) != want {
			t.Errorf("%s: got %v, want written %v", file, err, want)
		}
	}
	assign := func(file, mode string) (task hubapi.Task, err error) {
		body := map[string]any{"task": write(file), "permissionMode": mode}
		return task, o.ask(t.Context(), http.MethodPost, "/api/agents/vm-1/tasks", body, &task)
	}
	for file, mode := range map[string]string{"denied": "", "written": "acceptEdits"} {
		task, err := assign(file, mode)
		if err != nil {
			t.Fatal(err)
		}
		ended := o.ends(t, task, remoteagent.Completed)
		if denied := len(ended.Denials) == 1 && ended.StopReason == remoteagent.StopDenied; denied != (mode == "") {
			t.Errorf("%s: got %+v", file, ended)
		}
		written(file, mode != "")
		response, err := http.Get(o.Hub + "/api/agents/vm-1/tasks/" + task.TaskID + "/files/" + file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if downloaded := response.StatusCode == http.StatusOK && string(text) == "x"; err != nil || downloaded != (mode != "") {
			t.Errorf("%s through the hub: got %s %q, %v", file, response.Status, text, err)
		}
	}
	if _, err := assign("more", "bypassPermissions"); err == nil || !strings.Contains(err.Error(), "maxPermissionMode") {
		t.Errorf("more than the maximum: got %v, want a refusal", err)
	}
	for file, context := range map[string]string{"denied-by-v1": `{"task":{"approvals":"deny"}}`, "written-by-v1": `{"task":{"permissionMode":"acceptEdits"}}`} {
		body := strings.Replace(prompt(write(file)), "{", `{"context":`+context+`,`, 1)
		tr := o.read(t.Context(), t, http.MethodPost, o.URL+"/v1/agents/vm-1/stream?include=extended", body).end(t, time.Minute)
		checkStream(t, tr)
		permitted := file == "written-by-v1"
		if status := tr.results()["write_file"].Status; (status == event.ToolSuccess) != permitted || !permitted && status != event.ToolDenied {
			t.Errorf("%s: the call ended as %s", file, status)
		}
		noticed := false
		for _, e := range tr.Events {
			noticed = noticed || says("was not permitted to make these calls")(e.Body)
		}
		if noticed == permitted {
			t.Errorf("%s: got %s, want a notice %v", file, tr.shape(), !permitted)
		}
		written(file, permitted)
	}
}
