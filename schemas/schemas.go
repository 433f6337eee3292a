// Package schemas is the contract for everyone who is not Go: JSON Schemas of the events, of the records that the
// services leave for one another, of Tarko's events and of the contract with agents over HTTP, the OpenAPI document of the
// gateway, and the AsyncAPI document of the bus. Its tests hold the Go types, the schemas and the examples together.
package schemas

import (
	"bytes"
	"embed"
)

// FS holds every file of the contract under its path in this folder, for example "events/text.json".
//
//go:embed common.json event.json request.json openapi.yaml asyncapi.yaml events commands tarko agent agent-server
var FS embed.FS

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the OpenAPI 3.0 document of the gateway, in YAML. The caller owns the bytes.
func OpenAPI() []byte { return bytes.Clone(openAPI) }
