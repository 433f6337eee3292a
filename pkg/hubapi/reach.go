package hubapi

import (
	"fmt"
	"net/http"

	"github.com/agentbus/agentbus/pkg/egress"
)

// maxStream bounds what comes over one connection to an agent, in bytes.
const maxStream = 256 << 20

// Reach returns an HTTP client for agent-servers that uses the egress guard: allow lists addresses that are permitted
// although they are not public. Each call has a timeout (pkg/remoteagent), streams have none.
func Reach(allow []string, plainHTTP bool) (*http.Client, error) {
	list, err := egress.ParseAllow(allow)
	if err != nil {
		return nil, fmt.Errorf("hub.allow: %w", err)
	}
	return egress.NewClient(egress.Options{
		PlainHTTP: plainHTTP, AnyPort: true, Allow: list, Timeout: egress.NoTimeout, MaxBody: maxStream, MaxRedirects: -1,
	}), nil
}
