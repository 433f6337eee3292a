package deploytest

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instrument matches the creation of a metric in the source of a service.
var instrument = regexp.MustCompile(`(Int64|Float64)(Counter|Histogram|UpDownCounter|Gauge|ObservableGauge)\("(agentbus\.[a-z.]+)"(, metric\.WithUnit\("s"\))?`)

// exported returns the names of the services' metrics, as the exporter for Prometheus writes them.
func exported(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(root, "services"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range instrument.FindAllStringSubmatch(string(text), -1) {
			name := strings.ReplaceAll(m[3], ".", "_")
			if m[4] != "" {
				name += "_seconds"
			}
			switch m[2] {
			case "Counter":
				names = append(names, name+"_total")
			case "Histogram":
				names = append(names, name+"_bucket", name+"_sum", name+"_count")
			default:
				names = append(names, name)
			}
		}
		return err
	})
	if err != nil || len(names) < 10 {
		t.Fatalf("found %q, %v", names, err)
	}
	return names
}

var metricName = regexp.MustCompile(`agentbus_[a-z_]+`)

func TestDashboardsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "deploy/grafana/dashboards/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	names := exported(t)
	var sources struct {
		Datasources []struct {
			UID string `yaml:"uid"`
		} `yaml:"datasources"`
	}
	decode(t, "deploy/grafana/provisioning/datasources/datasources.yaml", &sources)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%s is not JSON: %v", file, err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			if !slices.Contains(names, name) {
				t.Errorf("%s uses %s; the services export %q", file, name, names)
			}
		}
		for _, m := range regexp.MustCompile(`"uid": "(prometheus|jaeger|[^"]*)"\s*}`).FindAllStringSubmatch(string(text), -1) {
			if m[1] != sources.Datasources[0].UID && m[1] != sources.Datasources[1].UID {
				t.Errorf("%s uses the data source %q, which is not provisioned", file, m[1])
			}
		}
	}
}
