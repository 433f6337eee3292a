package tarko

import (
	"encoding/json"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	jsonv2 "github.com/go-json-experiment/json"
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

// metadata is the metadata of a session. Extra has the members that only clients use.
type metadata struct {
	Version         int             `json:"version"`
	Name            string          `json:"name,omitempty"`
	Tags            []string        `json:"tags,omitempty"`
	ModelConfig     *record.Model   `json:"modelConfig,omitempty"`
	AgentInfo       agentInfo       `json:"agentInfo"`
	RuntimeSettings json.RawMessage `json:"runtimeSettings,omitzero"`
	Extra           jsontext.Value  `json:",embed"`
}

type agentInfo struct {
	Name         string `json:"name"`
	ConfiguredAt int64  `json:"configuredAt"`
}

// metadataVersion is the version that Tarko's clients use.
const metadataVersion = 1

// info returns a session of the caller's tenant as Tarko's clients read it.
func (s *Server) info(x *protocol.Exchange, n record.Session) info {
	m := metadata{
		Version: metadataVersion, Name: n.Name, Tags: n.Tags, ModelConfig: n.Model, RuntimeSettings: n.RuntimeSettings, Extra: jsontext.Value(n.Metadata),
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

// merge applies changes to the metadata of a session. Members that the server defines change its fields; all others are
// stored for the client. A null removes a member. The identity of a session, its agent and its model cannot be changed
// in this way.
func merge(n *record.Session, changes json.RawMessage) error {
	if err := checkObject("metadata", changes, maxMetadata); err != nil || len(changes) == 0 {
		return err
	}
	var wanted map[string]json.RawMessage
	if err := jsonv2.Unmarshal(changes, &wanted); err != nil {
		return apierr.Wrap(err, apierr.InvalidMessageFormat, "metadata is not valid JSON")
	}
	own := map[string]json.RawMessage{}
	if len(n.Metadata) > 0 {
		if err := jsonv2.Unmarshal(n.Metadata, &own); err != nil {
			return err
		}
	}
	for name, value := range wanted {
		switch {
		case isDefined(name):
			if err := setDefined(n, name, value); err != nil {
				return err
			}
		case jsontext.Value(value).Kind() == jsontext.KindNull:
			delete(own, name)
		default:
			own[name] = value
		}
	}
	return setExtra(n, own)
}

// setExtra stores the members that only clients use.
func setExtra(n *record.Session, own map[string]json.RawMessage) error {
	n.Metadata = nil
	if len(own) == 0 {
		return nil
	}
	text, err := jsonv2.Marshal(own, jsonv2.Deterministic(true))
	if err != nil {
		return err
	}
	n.Metadata = text
	return checkObject("metadata", n.Metadata, maxMetadata)
}

// isDefined reports whether the server defines a member of metadata.
func isDefined(name string) bool {
	switch name {
	case "version", "name", "tags", "modelConfig", "agentInfo", "runtimeSettings":
		return true
	}
	return false
}

// setDefined applies a member that the server defines. Members with a separate route are ignored here, because clients
// send back the metadata that they have read.
func setDefined(n *record.Session, name string, value json.RawMessage) error {
	switch name {
	case "name":
		n.Name = ""
		if err := jsonv2.Unmarshal(value, &n.Name); err != nil {
			return invalid("metadata.name must be a string")
		}
		return checkName(n.Name)
	case "tags":
		n.Tags = nil
		if err := jsonv2.Unmarshal(value, &n.Tags); err != nil {
			return invalid("metadata.tags must be an array of strings")
		}
		return checkTags(n.Tags)
	}
	return nil
}

// agentOptionsMember returns metadata with the agent options of a client.
func agentOptionsMember(value json.RawMessage) json.RawMessage {
	if len(value) == 0 || jsontext.Value(value).Kind() != jsontext.KindBeginObject || string(value) == "{}" {
		return nil
	}
	return append(append(json.RawMessage(`{"agentOptions":`), value...), '}')
}
