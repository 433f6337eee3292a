package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/services/e2e/stack"
)

// TestTheAdminServersOfAllServicesKeepSecrets asks the admin server of every process for all that it serves, with keys
// required.
func TestTheAdminServersOfAllServicesKeepSecrets(t *testing.T) {
	const pepper = "a pepper of the end-to-end tests"
	l := newLab(t, setup{
		database: database(t), counts: map[string]int{"hub": 1}, env: []string{"AUTH=required", "KEY_PEPPER=" + pepper},
	})
	for _, service := range append(slices.Clone(services), "hub") {
		for _, p := range l.Processes(service) {
			for path, want := range map[string]int{
				"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/metrics": http.StatusOK, "/": http.StatusNotFound,
				"/debug/pprof/": http.StatusNotFound, "/debug/pprof/cmdline": http.StatusNotFound, "/debug/vars": http.StatusNotFound,
			} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Admin+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				text := readAll(t, response)
				_ = response.Body.Close()
				if response.StatusCode != want {
					t.Errorf("%s of %s: got %s, want %d", path, service, response.Status, want)
				}
				for _, secret := range []string{pepper, stack.HubSecret, l.Database, l.NATS, l.Redis} {
					if strings.Contains(text, secret) {
						t.Errorf("%s of %s holds %q", path, service, secret)
					}
				}
			}
		}
	}
}
