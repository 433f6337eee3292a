package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// agentsCommand lists agents, and manages the hub's registry of remote agents.
type agentsCommand struct {
	Hub string `env:"AGENTBUS_HUB" help:"Address of the hub; without it, that of the gateway, as agentbus dev has it."`

	List   agentsListCommand   `cmd:"" default:"1" help:"List the agents."`
	Remote agentsRemoteCommand `cmd:"" help:"List the remote agents, with what they do and have cost."`
	Add    agentsAddCommand    `cmd:"" help:"Register an agent server."`
	Set    agentsSetCommand    `cmd:"" help:"Change the name of a remote agent, its budget, and the defaults of its tasks."`
	Remove agentsRemoveCommand `cmd:"" help:"Forget a remote agent."`
	Rotate agentsRotateCommand `cmd:"" help:"Replace the key of a remote agent, without a refused request."`
	Token  agentsTokenCommand  `cmd:"" help:"Make a set-up token: an agent server that has it registers itself, once, within 30 minutes."`
}

type agentsListCommand struct{}

func (cmd *agentsListCommand) Run(ctx context.Context, g globals, c *console) error {
	agents, err := g.client().Agents(ctx)
	if err != nil {
		return err
	}
	return list(g, c, agents, "NAME\tBACKEND\tMODEL\tTOOLS\tDESCRIPTION", func(a client.Agent) []string {
		return []string{a.Name, a.Backend, a.Model, strings.Join(a.Tools, " "), a.Description}
	})
}

type agentsRemoteCommand struct{}

func (cmd *agentsRemoteCommand) Run(ctx context.Context, g globals, group *agentsCommand, c *console) error {
	var all hubapi.AgentList
	if err := group.ask(ctx, g, http.MethodGet, "/api/agents?live=true", nil, &all); err != nil {
		return err
	}
	return list(g, c, all.Agents, "ID\tNAME\tSTATE\tCOST\tLAST SEEN\tCAPABILITIES\tURL", func(a hubapi.Agent) []string {
		state := "offline"
		if a.IsOnline {
			state = cmp.Or(a.Status, "online")
		}
		return []string{
			a.ID, a.Name, state, fmt.Sprintf("$%.2f", a.CostUSD), a.LastHeartbeat.Local().Format(time.DateTime),
			strings.Join(a.Capabilities, " "), a.URL,
		}
	})
}

type agentsAddCommand struct {
	URL          string   `arg:"" help:"Address of the agent server, such as https://vm-1.example.com:4001."`
	AgentKey     string   `required:"" env:"AGENT_KEY" help:"One of its AGENT_KEYS."`
	ID           string   `help:"Its id; without it, the one that it has itself."`
	Name         string   `help:"Its name; without it, the one that it has itself."`
	Capabilities []string `help:"Its capabilities; without it, those that the agent reports."`
	Cwd          string   `help:"Folder that its tasks work in when they do not say."`
	Model        string   `help:"Model of its tasks; without it, its own."`
	Budget       float64  `help:"What its tasks may cost in US dollars; without it, what the hub's configuration says."`

	PermissionMode string   `help:"What its tasks may do when they do not say: default, acceptEdits or bypassPermissions."`
	AllowedTools   []string `help:"Tools of its tasks when they do not say; none = no tools."`
	SystemPrompt   string   `help:"Instructions of its tasks when they do not say."`
}

func (cmd *agentsAddCommand) Run(ctx context.Context, g globals, group *agentsCommand, c *console) error {
	body := map[string]any{
		"url": cmd.URL, "apiKey": cmd.AgentKey, "id": cmd.ID, "name": cmd.Name, "capabilities": cmd.Capabilities,
		"defaultCwd": cmd.Cwd, "defaultModel": cmd.Model, "budgetUsd": cmd.Budget,
		"defaultPermissionMode": cmd.PermissionMode, "defaultSystemPrompt": cmd.SystemPrompt,
	}
	allow(body, cmd.AllowedTools)
	var saved hubapi.Agent
	if err := group.ask(ctx, g, http.MethodPost, "/api/agents", body, &saved); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, saved)
	}
	_, err := fmt.Fprintf(c.out, "%s (%s) is registered, and online\n", saved.ID, saved.Name)
	return err
}

// allow sets the tools of an agent's tasks in body, unless names is empty. Absent, they are all that the agent has; an empty list allows
// no tools.
func allow(body map[string]any, names []string) {
	switch {
	case slices.Contains(names, "*"):
		body["defaultAllowedTools"] = nil
	case slices.Equal(names, []string{"none"}):
		body["defaultAllowedTools"] = []string{}
	case len(names) > 0:
		body["defaultAllowedTools"] = names
	}
}

type agentsSetCommand struct {
	Agent          string   `arg:"" help:"Id of the agent."`
	Name           *string  `help:"Its name."`
	Cwd            *string  `help:"Folder that its tasks work in when they do not say."`
	Model          *string  `help:"Model of its tasks when they do not say."`
	Budget         *float64 `help:"What its tasks may cost in US dollars; 0 = what the hub's configuration says."`
	PermissionMode *string  `help:"What its tasks may do when they do not say: default, acceptEdits or bypassPermissions."`
	AllowedTools   []string `help:"Tools of its tasks when they do not say; * = all that the agent has, none = no tools."`
	SystemPrompt   *string  `help:"Instructions of its tasks when they do not say."`
}

func (cmd *agentsSetCommand) Run(ctx context.Context, g globals, group *agentsCommand, c *console) error {
	change := map[string]any{}
	set(change, "name", cmd.Name)
	set(change, "defaultCwd", cmd.Cwd)
	set(change, "defaultModel", cmd.Model)
	set(change, "budgetUsd", cmd.Budget)
	set(change, "defaultPermissionMode", cmd.PermissionMode)
	set(change, "defaultSystemPrompt", cmd.SystemPrompt)
	allow(change, cmd.AllowedTools)
	if len(change) == 0 {
		return errors.New("nothing is to be changed; agentbus agents set --help lists what can be")
	}
	var saved hubapi.Agent
	if err := group.ask(ctx, g, http.MethodPatch, "/api/agents/"+url.PathEscape(cmd.Agent), change, &saved); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, saved)
	}
	_, err := fmt.Fprintf(c.out, "%s (%s) is changed\n", saved.ID, saved.Name)
	return err
}

// set adds a value that was given to a change.
func set[T any](change map[string]any, name string, value *T) {
	if value != nil {
		change[name] = *value
	}
}

type agentsRemoveCommand struct {
	Agent string `arg:"" help:"Id of the agent."`
}

func (cmd *agentsRemoveCommand) Run(ctx context.Context, g globals, group *agentsCommand, c *console) error {
	if err := group.ask(ctx, g, http.MethodDelete, "/api/agents/"+url.PathEscape(cmd.Agent), nil, nil); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, map[string]string{"id": cmd.Agent, "status": "removed"})
	}
	_, err := fmt.Fprintln(c.out, "removed", cmd.Agent)
	return err
}

type agentsRotateCommand struct {
	Agent  string `arg:"" help:"Id of the agent."`
	NewKey string `env:"AGENT_KEY" help:"The new key, one of its AGENT_KEYS; without it, the hub makes one and gives it to the agent."`
}

func (cmd *agentsRotateCommand) Run(ctx context.Context, g globals, group *agentsCommand, c *console) error {
	var rotated struct {
		ID               string    `json:"id"`
		OldKeyValidUntil time.Time `json:"oldKeyValidUntil"`
	}
	body := map[string]string{"apiKey": cmd.NewKey}
	if err := group.ask(ctx, g, http.MethodPost, "/api/agents/"+url.PathEscape(cmd.Agent)+"/key", body, &rotated); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, rotated)
	}
	until := rotated.OldKeyValidUntil.Local().Format(time.DateTime)
	_, err := fmt.Fprintf(c.out, "%s has a new key; the old one is good until %s\n", rotated.ID, until)
	return err
}

type agentsTokenCommand struct{}

func (cmd *agentsTokenCommand) Run(ctx context.Context, g globals, group *agentsCommand, c *console) error {
	var made struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expiresAt"`
	}
	if err := group.ask(ctx, g, http.MethodPost, "/api/agents/tokens", nil, &made); err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, made)
	}
	_, _ = fmt.Fprintf(c.err, "good for one agent until %s; start its server with HUB_URL=%s and HUB_TOKEN set to this:\n",
		made.ExpiresAt.Local().Format(time.TimeOnly), group.address(g))
	_, err := fmt.Fprintln(c.out, made.Token)
	return err
}

func (cmd *agentsCommand) address(g globals) string {
	return strings.TrimRight(withScheme(cmp.Or(cmd.Hub, g.URL)), "/")
}

// hubWait is the timeout of a call to the hub, which may call the agent.
const hubWait = time.Minute

// ask calls the hub. The response is decoded into answer, unless that is nil.
func (cmd *agentsCommand) ask(ctx context.Context, g globals, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, hubWait)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, cmd.address(g)+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("address of the hub: %w", err)
	}
	if g.Key != "" {
		request.Header.Set("Authorization", "Bearer "+g.Key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("no hub answers: %w; --hub or AGENTBUS_HUB says where it is", err)
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(response.Body, 16<<20)); err != nil {
		return fmt.Errorf("read the hub's answer: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return refusal(response.Status, text)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer is not a hub's: %w; --hub or AGENTBUS_HUB says where the hub is", err)
	}
	return nil
}

// refusal returns the message of an error response of the hub.
func refusal(status string, text []byte) error {
	var r remoteagent.Refusal
	if json.Unmarshal(text, &r) != nil || r.Message == "" {
		return fmt.Errorf("the hub answers %s; --hub or AGENTBUS_HUB says where the hub is", status)
	}
	return errors.New(r.Message)
}
