package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
)

const (
	// MaxModel is the longest name of a model that a request may bring, in bytes.
	MaxModel = 256
	// AnyModel in [Agent.Models] allows every name of at most MaxModel bytes.
	AnyModel = "*"
)

// maxListed bounds how many allowed models an error lists.
const maxListed = 10

// AllowedModels lists the models that a request may name for the agent, the agent's own first.
func (a Agent) AllowedModels() []string {
	var allowed []string
	for _, name := range append([]string{a.Model}, a.Models...) {
		if name != "" && !slices.Contains(allowed, name) {
			allowed = append(allowed, name)
		}
	}
	return allowed
}

// CheckModel refuses a model that a request names for the agent and that the agent does not allow. An empty name is the
// agent's own model. The error is a apierr.InvalidMessageFormat that lists the allowed models; member is what the request
// calls the name.
func (a Agent) CheckModel(member, model string) error {
	allowed := a.AllowedModels()
	switch {
	case model == "":
		return nil
	case len(model) > MaxModel:
		return apierr.New(apierr.InvalidMessageFormat, "%s has %d bytes; the name of a model has at most %d", member, len(model), MaxModel)
	case slices.Contains(allowed, model), slices.Contains(allowed, AnyModel):
		return nil
	case len(allowed) == 0:
		return apierr.New(apierr.InvalidMessageFormat, "%s is %.80q; this agent allows no model by name, leave %s out", member, model, member)
	default:
		return apierr.New(apierr.InvalidMessageFormat, "%s is %.80q, which this agent does not allow; it allows %s",
			member, model, listed(allowed))
	}
}

func listed(names []string) string {
	quoted := make([]string, 0, maxListed)
	for _, name := range names[:min(len(names), maxListed)] {
		quoted = append(quoted, fmt.Sprintf("%.80q", name))
	}
	list := strings.Join(quoted, ", ")
	if more := len(names) - maxListed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// wellKnownModelsOf lists the well-known models of one provider: those of Anthropic, or all others.
func wellKnownModelsOf(anthropic bool) []string {
	names := slices.Sorted(maps.Keys(wellKnownModels()))
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "claude-") != anthropic })
}

func (c checker) models(path string, a Agent) {
	for i, name := range a.Models {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case name == "":
			c.report(at, "is empty; write the name of a model, or %q for any", AnyModel)
		case len(name) > MaxModel:
			c.report(at, "has %d bytes; the name of a model has at most %d", len(name), MaxModel)
		case slices.Contains(a.Models[:i], name):
			c.report(at, "model %q is in the list twice; remove one", name)
		}
	}
}
