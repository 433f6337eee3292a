package observer

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/agentbus/agentbus/internal/testcluster"
)

// openFiles describes each descriptor that a node holds: the path of a file, or the server that a connection leads to. A
// process that is down holds none.
func openFiles(n *cluster.Node) []string {
	process := filepath.Join("/proc", strconv.Itoa(n.PID()))
	descriptors, err := os.ReadDir(filepath.Join(process, "fd"))
	if err != nil {
		return nil
	}
	peers := connected(process, n)
	var all []string
	for _, d := range descriptors {
		target, err := os.Readlink(filepath.Join(process, "fd", d.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		if peer, ok := peers[target]; ok {
			target = peer
		}
		all = append(all, target)
	}
	slices.Sort(all)
	return all
}

// connected names the connections of a process by what /proc calls their descriptors.
func connected(process string, n *cluster.Node) map[string]string {
	servers := map[string]string{} // by address
	for _, kind := range []testcluster.Kind{testcluster.NATS, testcluster.Redis, testcluster.Postgres, testcluster.Agent} {
		for _, p := range n.Proxies(kind) {
			servers[p.Addr()] = string(kind)
		}
	}
	peers := map[string]string{}
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join(process, "net", name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) < 10 || words[0] == "sl" {
				continue
			}
			local, remote := address(words[1]), address(words[2])
			what := fmt.Sprintf("connection of %s with %s", local, remote)
			if server, ok := servers[remote]; ok {
				what = "connection to " + server
			}
			if words[3] != established {
				what += " in TCP state " + words[3]
			}
			peers["socket:["+words[9]+"]"] = what
		}
	}
	return peers
}

// established is how /proc names the state of a connection that is open on both sides.
const established = "01"

// address reads an IPv4 address as /proc writes it, in the byte order of the machine; others stay as they are.
func address(text string) string {
	ip, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(ip)
	number, errPort := strconv.ParseUint(port, 16, 16)
	if err != nil || errPort != nil || len(raw) != net.IPv4len {
		return text
	}
	slices.Reverse(raw)
	return net.JoinHostPort(net.IP(raw).String(), strconv.FormatUint(number, 10))
}
