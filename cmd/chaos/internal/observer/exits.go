package observer

import (
	"fmt"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/internal/testcluster"
)

// readExits reports services that have ended unexpectedly. A service waits for its dependencies at the start and after
// an outage, so it never ends by itself.
func (w *Observer) readExits(run *check.Run) {
	for _, kind := range testcluster.Services() {
		for _, n := range w.Cluster.Find(kind) {
			if lost := n.Lost(); lost > 0 {
				run.Panics = append(run.Panics, fmt.Sprintf("%s ended by itself %d times: see %s", n.Name, lost, n.LogFile()))
			}
		}
	}
}
