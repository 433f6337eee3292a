package tarko

import (
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

func (s *Server) getHealth(x *protocol.Exchange) error {
	return x.Reply(http.StatusOK, map[string]string{"status": "ok"})
}

// build is the version of the program.
type build struct {
	Version   string `json:"version"`
	BuildTime int64  `json:"buildTime"` // milliseconds: of the commit, or of the program's file
	GitHash   string `json:"gitHash"`
}

func (s *Server) getVersion(x *protocol.Exchange) error { return x.Reply(http.StatusOK, s.build) }

// agentOptions describes the default agent to clients.
type agentOptions struct {
	Name          string        `json:"name"`
	Description   string        `json:"description,omitempty"`
	Model         *record.Model `json:"model,omitempty"`
	Tools         []string      `json:"tools,omitempty"`
	Agents        []string      `json:"agents"`
	Workspace     string        `json:"workspace"`
	WorkspaceName string        `json:"workspaceName"`
}

// getOptions describes the default agent, without its prompt and without paths of the server.
func (s *Server) getOptions(x *protocol.Exchange) error {
	agent := s.Config.Agents[s.agent]
	o := agentOptions{
		Name: s.agent, Description: agent.Description, Tools: agent.Tools, Agents: s.agents,
		Workspace: s.workspace(x).Name(), WorkspaceName: s.workspace(x).Name(),
	}
	if agent.Model != "" {
		o.Model = &record.Model{Provider: agent.Backend, ID: agent.Model}
	}
	return x.Reply(http.StatusOK, map[string]agentOptions{"options": o})
}

// readBuild returns the version of this program, as far as the build has recorded it.
func readBuild() build {
	b := build{Version: service.Version()}
	if file, err := os.Executable(); err == nil { // where the build recorded no version control: the page would show today
		if at, err := os.Stat(file); err == nil {
			b.BuildTime = at.ModTime().UnixMilli()
		}
	}
	about, _ := debug.ReadBuildInfo()
	if about == nil {
		return b
	}
	for _, s := range about.Settings {
		switch s.Key {
		case "vcs.revision":
			b.GitHash = s.Value
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.BuildTime = at.UnixMilli()
			}
		}
	}
	return b
}
