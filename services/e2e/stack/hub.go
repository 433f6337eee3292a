package stack

import (
	"context"
	"path/filepath"
)

// Agent is an agent-server of the TARS hub protocol.
type Agent struct {
	*Process
	ID, URL string
}

// HubSecret is what the hub of a stack seals keys with.
const HubSecret = "a secret of the end-to-end tests"

// StartAgent starts an agent-server with the scripted backend, which stores its state in a separate folder.
func (s *Stack) StartAgent(ctx context.Context, id, keys string, env ...string) (Agent, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return Agent{}, err
	}
	admin, err := freeAddr(ctx)
	if err != nil {
		return Agent{}, err
	}
	env = append([]string{
		"HTTP_ADDR=" + addr, "ADMIN_ADDR=" + admin, "AGENT_ID=" + id, "AGENT_NAME=Agent " + id, "AGENT_KEYS=" + keys,
		"AGENT_BACKEND=scripted", "DATA_DIR=" + filepath.Join(s.options.Dir, "agent-"+id), "AGENT_URL=http://" + addr,
	}, env...)
	p, err := s.Run(ctx, "agent-server", "http://"+admin+"/readyz", env, s.binary("agent-server"))
	return Agent{Process: p, ID: id, URL: "http://" + addr}, err
}
