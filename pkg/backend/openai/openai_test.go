package openai_test

import (
	"flag"
	"net/http"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/openai"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestStreams(t *testing.T) {
	t.Parallel()
	backendtest.Replay(t, "testdata/streams/*.txtar", *update, func(c *http.Client) backend.Backend {
		return openai.New(openai.Options{BaseURL: "http://provider/v1", Client: c, Retries: -1})
	})
}
