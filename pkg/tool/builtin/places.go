package builtin

import (
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/contextvar"
	"github.com/agentbus/agentbus/pkg/tool/internal/template"
)

// Places returns what a text of a configured tool refers to. The error says why the text cannot be read. Values of the
// request's context are not listed.
func Places(text string) (config.Places, error) {
	var found config.Places
	parsed, err := template.Parse(text, func(name string) (string, error) {
		found.Secrets = append(found.Secrets, name)
		return "", nil
	})
	if err != nil {
		return config.Places{}, err
	}
	for _, name := range parsed.Arguments() {
		if !contextvar.IsName(name) {
			found.Arguments = append(found.Arguments, name)
		}
	}
	return found, nil
}
