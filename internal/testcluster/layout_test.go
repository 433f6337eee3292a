package testcluster_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/internal/testcluster"
)

func TestTheConfigurationOfNATS(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		options testcluster.NATSOptions
		want    []string // in the file of each server
		without string
	}{
		{"one server with the defaults", testcluster.NATSOptions{Nodes: 1}, []string{`sync_interval: "2m"`}, "cluster {"},
		{"a server that syncs each message", testcluster.NATSOptions{Nodes: 1, Sync: "always"}, []string{`sync_interval: "always"`}, "cluster {"},
		{"three servers that know one another", testcluster.NATSOptions{Nodes: 3, More: "max_payload: 1MB"}, []string{
			"cluster {", "no_advertise: true", "max_payload: 1MB",
		}, "accounts"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := testcluster.Layout{Dir: t.TempDir()}
			servers, err := l.NATS(t.Context(), test.options)
			if err != nil || len(servers) != test.options.Nodes {
				t.Fatalf("got %d servers and %v, want %d", len(servers), err, test.options.Nodes)
			}
			for i, c := range servers {
				text, err := os.ReadFile(c.Args[1])
				if err != nil {
					t.Fatal(err)
				}
				name := testcluster.Name(testcluster.NATS, i)
				for _, part := range append(test.want, `listen: "`+c.Addr+`"`, `server_name: "`+name+`"`) {
					if !strings.Contains(string(text), part) {
						t.Errorf("%s: got %s, want %s", name, text, part)
					}
				}
				if strings.Contains(string(text), test.without) {
					t.Errorf("%s: got %s, want no %s", name, text, test.without)
				}
			}
			if url := testcluster.NATSURL(servers); strings.Count(url, "nats://127.0.0.1:") != test.options.Nodes {
				t.Errorf("got the URL %s, want %d servers", url, test.options.Nodes)
			}
		})
	}
}

func TestServicesHaveNamesAddressesAndServersOfTheirOwn(t *testing.T) {
	t.Parallel()
	l := testcluster.Layout{Dir: t.TempDir(), Programs: testcluster.Programs{testcluster.Gateway: "/bin/true", testcluster.Agent: "/bin/true"}}
	servers := testcluster.Servers{NATS: "nats://n", Redis: "redis://r", Database: "sqlite:d"}
	var all []testcluster.Command
	for range 2 {
		c, err := l.Service(t.Context(), testcluster.Gateway, &servers, "AUTH=off")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"NATS_URL=nats://n", "REDIS_URL=redis://r", "DATABASE_URL=sqlite:d", "AUTH=off", "HTTP_ADDR=" + c.Addr} {
			if !slices.Contains(c.Env, want) {
				t.Errorf("%s: got %q, want %s", c.Name, c.Env, want)
			}
		}
		all = append(all, c)
	}
	if all[0].Name != "gateway-0" || all[1].Name != "gateway-1" || all[0].Addr == all[1].Addr || all[0].Admin == all[1].Admin {
		t.Errorf("got %+v and %+v, want two names and four addresses", all[0], all[1])
	}
	agent, err := l.Service(t.Context(), testcluster.Agent, nil)
	if err != nil || slices.ContainsFunc(agent.Env, func(v string) bool { return strings.HasPrefix(v, "NATS_URL") }) {
		t.Errorf("got %q and %v, want no servers", agent.Env, err)
	}
	if c, err := l.Service(t.Context(), testcluster.Hub, nil); err == nil {
		t.Errorf("got %+v, want an error because the program is missing", c)
	}
}
