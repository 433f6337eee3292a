package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/agentbus/agentbus/cmd/chaos/internal/proxy"
	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/go-json-experiment/json"
)

const (
	hubSecret = "hub-secret-that-must-stand-in-no-log"
	agentKey  = "agent-key-that-must-stand-in-no-log"
)

// agentConfiguration is the YAML file of the agent-servers. A crash does not end their tasks.
const agentConfiguration = `agentServer:
  places: 16
  queue: 64
  onCrash: resume
  rateLimit: {requests: 1000000, per: 1s, burst: 1000000}
  heartbeat: 1s
`

// RemoteAgent is the name of the agent of a tenant that works on an agent-server.
func RemoteAgent(tenant string) string { return "remote-" + tenant }

// agent makes the node of a tenant's agent-server. The hub and the runners reach it through a proxy.
func (c *Cluster) agent(tenant string) func(context.Context, testcluster.Kind, []string) (*Node, error) {
	return func(ctx context.Context, kind testcluster.Kind, _ []string) (*Node, error) {
		file := filepath.Join(c.options.Dir, "agent-server.yaml")
		if err := os.WriteFile(file, []byte(agentConfiguration), 0o600); err != nil {
			return nil, err
		}
		id := RemoteAgent(tenant)
		command, err := c.layout.Service(ctx, kind, nil,
			"CONFIG_FILE="+file, "DATA_DIR="+filepath.Join(c.options.Dir, id), "AGENT_ID="+id, "AGENT_NAME="+id,
			"AGENT_KEYS="+agentKey, "AGENT_BACKEND=scripted", "HUB_URL="+c.Hub, "GRACE=10s")
		if err != nil {
			return nil, err
		}
		front, err := proxy.New(ctx, command.Addr)
		if err != nil {
			return nil, err
		}
		command.Env = append(command.Env, "AGENT_URL=http://"+front.Addr())
		return c.add(command, map[testcluster.Kind][]Link{testcluster.Agent: {front}}), nil
	}
}

// register makes each agent-server known to the hub, as an agent of its tenant.
func (c *Cluster) register(ctx context.Context) error {
	c.Secrets = append(c.Secrets, agentKey)
	for i, tenant := range Tenants() {
		n := c.Find(testcluster.Agent)[i]
		body := map[string]string{"id": RemoteAgent(tenant), "url": "http://" + n.Links()[0].Addr(), "apiKey": agentKey}
		err := testcluster.Await(ctx, func(ctx context.Context) error { return c.saveAgent(ctx, tenant, body) })
		if err != nil {
			return fmt.Errorf("register %s: %w", RemoteAgent(tenant), err)
		}
	}
	return nil
}

func (c *Cluster) saveAgent(ctx context.Context, tenant string, agent map[string]string) error {
	text, err := json.Marshal(agent)
	if err != nil {
		return err
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Hub+"/api/agents", bytes.NewReader(text))
	if err != nil {
		return err
	}
	call.Header.Set("Authorization", "Bearer "+c.Keys[tenant])
	call.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(call)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // a part of it is enough for a message
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the hub answers %s: %s", response.Status, answer)
	}
	return nil
}
