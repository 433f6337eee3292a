package tarko

import (
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// info is a session as Tarko's clients read it (SessionInfo). Times are in milliseconds.
type info struct {
	ID        string   `json:"id"`
	CreatedAt int64    `json:"createdAt"`
	UpdatedAt int64    `json:"updatedAt"`
	Workspace string   `json:"workspace"`
	Metadata  metadata `json:"metadata"`
	UserID    string   `json:"userId"`
}

// metadata is what clients note on a session. Extra is what they alone understand.
type metadata struct {
	Version         int            `json:"version"`
	Name            string         `json:"name,omitempty"`
	Tags            []string       `json:"tags,omitempty"`
	ModelConfig     *record.Model  `json:"modelConfig,omitempty"`
	AgentInfo       agentInfo      `json:"agentInfo"`
	RuntimeSettings jsontext.Value `json:"runtimeSettings,omitzero"`
	Extra           jsontext.Value `json:",embed"`
}

type agentInfo struct {
	Name         string `json:"name"`
	ConfiguredAt int64  `json:"configuredAt"`
}

// metadataVersion is that of Tarko's clients.
const metadataVersion = 1

// info is what a caller reads of a session of its tenant.
func (s *Server) info(x *protocol.Exchange, n record.Session) info {
	m := metadata{
		Version: metadataVersion, Name: n.Name, Tags: n.Tags, ModelConfig: n.Model, RuntimeSettings: n.RuntimeSettings, Extra: n.Metadata,
		AgentInfo: agentInfo{n.AgentID, millis(n.CreatedAt)},
	}
	if agent := s.Config.Agents[n.AgentID]; m.ModelConfig == nil && agent.Model != "" {
		m.ModelConfig = &record.Model{Provider: agent.Backend, ID: agent.Model}
	}
	return info{
		ID: n.ThreadID, CreatedAt: millis(n.CreatedAt), UpdatedAt: millis(n.UpdatedAt),
		Workspace: s.workspace(x).Name(), Metadata: m, UserID: n.Owner,
	}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// merge changes what is noted by the members of an object: those that have a meaning here change that, all others are the
// client's own. A null takes a member away. What says who a session is or who answers cannot be changed this way.
func merge(n *record.Session, changes jsontext.Value) error {
	if err := checkObject("metadata", changes, maxMetadata); err != nil || len(changes) == 0 {
		return err
	}
	var wanted map[string]jsontext.Value
	if err := json.Unmarshal(changes, &wanted); err != nil {
		return apierr.Wrap(err, apierr.InvalidMessageFormat, "metadata is not valid JSON")
	}
	own := map[string]jsontext.Value{}
	if len(n.Metadata) > 0 {
		if err := json.Unmarshal(n.Metadata, &own); err != nil {
			return err
		}
	}
	for name, value := range wanted {
		switch {
		case isOurs(name):
			if err := note(n, name, value); err != nil {
				return err
			}
		case value.Kind() == jsontext.KindNull:
			delete(own, name)
		default:
			own[name] = value
		}
	}
	return keep(n, own)
}

// keep writes the client's own metadata.
func keep(n *record.Session, own map[string]jsontext.Value) error {
	n.Metadata = nil
	if len(own) == 0 {
		return nil
	}
	text, err := json.Marshal(own, json.Deterministic(true))
	if err != nil {
		return err
	}
	n.Metadata = text
	return checkObject("metadata", n.Metadata, maxMetadata)
}

// isOurs lists the members of metadata that have a meaning here.
func isOurs(name string) bool {
	switch name {
	case "version", "name", "tags", "modelConfig", "agentInfo", "runtimeSettings":
		return true
	}
	return false
}

// note takes over a member that has a meaning here. Those that have routes of their own, which check them, stay as they are:
// clients send back what they were told.
func note(n *record.Session, name string, value jsontext.Value) error {
	switch name {
	case "name":
		n.Name = ""
		if err := json.Unmarshal(value, &n.Name); err != nil {
			return invalid("metadata.name must be a string")
		}
		return checkName(n.Name)
	case "tags":
		n.Tags = nil
		if err := json.Unmarshal(value, &n.Tags); err != nil {
			return invalid("metadata.tags must be an array of strings")
		}
		return checkTags(n.Tags)
	}
	return nil
}

// options puts what Tarko's clients call the options of an agent among the metadata.
func options(value jsontext.Value) jsontext.Value {
	if len(value) == 0 || value.Kind() != jsontext.KindBeginObject || string(value) == "{}" {
		return nil
	}
	return append(append(jsontext.Value(`{"agentOptions":`), value...), '}')
}
