package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"
)

// MaxSize is the largest file that is read, in bytes.
const MaxSize = 1 << 20

// Known describes what a file may use and that this package does not define. What is empty or nil is not checked.
type Known struct {
	Backends []string
	Tools    []string
	Script   func(script string) error         // why the backend scripted cannot run a script; nil = it can
	Places   func(text string) (Places, error) // what a text of a tool refers to
	Secret   func(name string) error           // why a secret cannot be read; nil = it can
}

// Load reads the file at path and adds it to base, usually [Default]: see [Config.With]. Relative workspaces are those of
// the file's folder. The error is a [Mistakes] when the file can be read and says something wrong.
func Load(path string, base Config, known Known) (Config, error) {
	data, err := read(path)
	if err != nil {
		return Config{}, err
	}
	if base.Agents == nil {
		base.Agents = map[string]Agent{}
	}
	file, err := parse(data, known, base.Agents)
	if mistakes, ok := errors.AsType[Mistakes](err); ok {
		return Config{}, mistakes.in(path)
	}
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := file.readEvents(folder); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	file.placeWorkspaces(folder)
	whole := base.With(file)
	if err := whole.CostLimited(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return whole, nil
}

// placeWorkspaces makes the workspaces of programs absolute.
func (c Config) placeWorkspaces(folder string) {
	for name, a := range c.Agents {
		if a.Workspace != "" && !filepath.IsAbs(a.Workspace) {
			a.Workspace = filepath.Join(folder, a.Workspace)
			c.Agents[name] = a
		}
	}
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("read the configuration: %s is larger than %d bytes", path, MaxSize)
	}
	return data, nil
}

// Parse reads a configuration. It reports all mistakes: the error is a [Mistakes]. Only text that is not YAML ends the
// check early.
func Parse(data []byte, known Known) (Config, error) { return parse(data, known, nil) }

// parse reads a configuration that is added to one with the agents base; nil = they are not known.
func parse(data []byte, known Known, base map[string]Agent) (Config, error) {
	if len(data) > MaxSize {
		return Config{}, Mistakes{{Line: 1, Column: 1, What: fmt.Sprintf("the file is larger than %d bytes", MaxSize)}}
	}
	var c Config
	d := decoder{positions: map[string]position{}}
	root, err := parseYAML(bytes.TrimPrefix(data, []byte("\ufeff")))
	if err != nil {
		return Config{}, Mistakes{*err}
	}
	if root != nil {
		d.decodeRoot(root, &c)
	}
	if base != nil && c.Demo {
		base = merged(base, map[string]Agent{DefaultAgent: {}})
	}
	checker{known: known, servers: c.MCP, base: base, agents: c.Agents, decoder: &d}.check(c)
	if len(d.mistakes) > 0 {
		return Config{}, d.mistakes.sorted()
	}
	return c, nil
}

// With returns c with everything that file says, the agent of `demo: true` included: an agent, model, tool or event of the same name replaces that of c whole,
// and the sections files, sandbox and gateway, if the file has them, replace those of c. Of the section hub, each member that the
// file has replaces that of c, and its addresses are added.
func (c Config) With(file Config) Config {
	if c.Demo = c.Demo || file.Demo; file.Demo {
		c.Agents = merged(c.Agents, map[string]Agent{DefaultAgent: Demo()})
	}
	c.Agents = merged(c.Agents, file.Agents)
	c.Models = merged(c.Models, file.Models)
	c.Tools = merged(c.Tools, file.Tools)
	c.Events = merged(c.Events, file.Events)
	c.MCP = merged(c.MCP, file.MCP)
	if file.Files != (Files{}) {
		c.Files = file.Files
	}
	if file.Sandbox != (Sandbox{}) {
		c.Sandbox = file.Sandbox
	}
	if !file.Gateway.isZero() {
		c.Gateway = file.Gateway
	}
	if !file.AgentServer.isZero() {
		c.AgentServer = file.AgentServer
	}
	c.Hub = c.Hub.with(file.Hub)
	return c
}

// FitsRetention reports which agent gives its clients more time to act than the streams keep what an action needs, nil when
// none does. 0 = they keep it for good.
func (c Config) FitsRetention(age time.Duration) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if ttl := time.Duration(c.Agents[name].ActionTTL); age > 0 && ttl > age {
			errs = append(errs, fmt.Errorf("agents.%s.actionTTL is %s, longer than the %s for which the streams keep events "+
				"(NATS_MAX_AGE): an approval given later could not be carried out; shorten actionTTL or raise NATS_MAX_AGE", name, ttl, age))
		}
	}
	return errors.Join(errs...)
}

func (g Gateway) isZero() bool { return reflect.ValueOf(g).IsZero() }

func merged[V any](base, over map[string]V) map[string]V {
	all := make(map[string]V, len(base)+len(over))
	maps.Copy(all, base)
	maps.Copy(all, over)
	return all
}
