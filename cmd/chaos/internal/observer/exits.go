package observer

import (
	"fmt"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/internal/testcluster"
)

// readExits looks for services that have ended though nothing asked them to. A service waits for what it needs at its
// start and for what it loses later, so it has no reason to end by itself.
func (w *Witness) readExits(run *check.Run) {
	for _, kind := range testcluster.Services() {
		for _, n := range w.Cluster.Find(kind) {
			if lost := n.Lost(); lost > 0 {
				run.Panics = append(run.Panics, fmt.Sprintf("%s ended by itself %d times: see %s", n.Name, lost, n.LogFile()))
			}
		}
	}
}
