package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// MaxSize is the largest file that is read, in bytes.
const MaxSize = 1 << 20

// Known lists the names that a file may use and that this package does not define. An empty list allows every name.
type Known struct {
	Backends []string
	Tools    []string
}

// Load reads the file at path and adds it to base, usually [Default]: see [Config.With]. The error is a [Mistakes]
// when the file can be read and says something wrong.
func Load(path string, base Config, known Known) (Config, error) {
	data, err := read(path)
	if err != nil {
		return Config{}, err
	}
	file, err := Parse(data, known)
	if mistakes, ok := errors.AsType[Mistakes](err); ok {
		return Config{}, mistakes.in(path)
	}
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := file.readEvents(filepath.Dir(path)); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	whole := base.With(file)
	if err := whole.Callable(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return whole, nil
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
func Parse(data []byte, known Known) (Config, error) {
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
	checker{known: known, servers: c.MCP, decoder: &d}.check(c)
	if len(d.mistakes) > 0 {
		return Config{}, d.mistakes.sorted()
	}
	return c, nil
}

// With returns c with everything that file says, the agent of `demo: true` included: an agent, model, tool or event of the same name replaces that of c whole,
// and the sections files, sandbox, gateway and hub, if the file has them, replace those of c.
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
	if !file.Hub.isZero() {
		c.Hub = file.Hub
	}
	return c
}

// Callable reports which agent calls a missing one, nil without one: an agent of a file may call an agent of the
// configuration that the file is added to.
func (c Config) Callable() error {
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		for _, called := range c.Agents[name].Agents {
			if _, ok := c.Agents[called]; !ok {
				return fmt.Errorf("agents.%s.agents: unknown agent %q; %s", name, called, cure(called, slices.Collect(maps.Keys(c.Agents))))
			}
		}
	}
	return nil
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

func (g Gateway) isZero() bool {
	return len(g.CORS) == 0 && g.MaxBody == 0 && g.RateLimit == Rate{} && g.Heartbeat == 0 && g.StreamTimeout == 0 &&
		g.Limits == ConnectionLimits{} && g.Quotas == Quotas{} && g.Sessions.isZero()
}

func merged[V any](base, over map[string]V) map[string]V {
	all := make(map[string]V, len(base)+len(over))
	maps.Copy(all, base)
	maps.Copy(all, over)
	return all
}
