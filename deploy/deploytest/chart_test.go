package deploytest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var update = flag.Bool("update", false, "write the chart again") //nolint:gochecknoglobals // a flag

// sections are the files of the chart: which objects they have, and the value that switches them on.
func sections() []section {
	return []section{
		{"nats", func(o object) bool { return strings.HasPrefix(o.name, "nats") }},
		{"scaling", func(o object) bool { return o.kind == "ScaledObject" || o.kind == "HorizontalPodAutoscaler" }},
		{"monitoring", func(o object) bool { return o.kind == "ServiceMonitor" }},
		{"ingress", func(o object) bool { return o.kind == "Ingress" }},
		{"", func(o object) bool { return o.kind != "Namespace" }},
	}
}

type section struct {
	value string // "" = always
	has   func(object) bool
}

// substitutions put the values of the chart into the manifests of the overlay for production.
func substitutions() []substitution {
	return []substitution{
		{regexp.MustCompile(`namespace: agentbus\b`), "namespace: {{ .Release.Namespace }}"},
		{regexp.MustCompile(`agentbus\.svc\b`), "{{ .Release.Namespace }}.svc"},
		{regexp.MustCompile(`image: agentbus/([a-z-]+):dev`), "image: {{ .Values.image.prefix }}$1:{{ .Values.image.tag }}"},
		{regexp.MustCompile(`agentbus\.example\.com`), "{{ .Values.host }}"},
		{regexp.MustCompile(`(?m)^  name: setup\n  namespace: (.*)\nspec:\n  backoffLimit`), "  name: setup-{{ .Release.Revision }}\n  namespace: $1\nspec:\n  backoffLimit"},
		{regexp.MustCompile(`config\.yaml: \|\n    agents: \{\}\n`), "config.yaml: |\n    {{- .Values.config | trim | nindent 4 }}\n"},
		{regexp.MustCompile(`data:\n(  [A-Z_]+: .*\n)+`), "data:\n  {{- toYaml .Values.environment | nindent 2 }}\n"},
	}
}

type substitution struct {
	pattern *regexp.Regexp
	with    string
}

// TestChartIsGenerated compares the templates of the chart with the overlay for production; -update writes them.
func TestChartIsGenerated(t *testing.T) {
	t.Parallel()
	files := map[string]*bytes.Buffer{}
	for document := range strings.SplitSeq(string(kustomize(t, "overlays/production")), "\n---\n") {
		o := parse(t, []byte(document))[0]
		text := strings.TrimSuffix(document, "\n") + "\n"
		for _, s := range substitutions() {
			text = s.pattern.ReplaceAllString(text, s.with)
		}
		for _, s := range sections() {
			if !s.has(o) {
				continue
			}
			name := s.value
			if name == "" {
				name = "services"
			}
			if files[name] == nil {
				files[name] = bytes.NewBufferString("# Generated from k8s/overlays/production: make chart\n")
				if s.value != "" {
					fmt.Fprintf(files[name], "{{- if .Values.%s.enabled }}\n", s.value)
				}
			}
			fmt.Fprintf(files[name], "---\n%s", text)
			break
		}
	}
	for name, text := range files {
		if name != "services" {
			text.WriteString("{{- end }}\n")
		}
		path := filepath.Join(root, "k8s/chart/templates", name+".yaml")
		if *update {
			if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text.Bytes()) {
			t.Errorf("%s is not what the overlay gives (%v); run make chart", path, err)
		}
	}
}

// TestChartRendersTheOverlay compares the objects that helm renders with those of the overlay for production.
func TestChartRendersTheOverlay(t *testing.T) {
	t.Parallel()
	helm := func(args ...string) manifest {
		args = append([]string{"template", "agentbus", filepath.Join(root, "k8s/chart"), "--namespace", "agentbus"}, args...)
		command := exec.CommandContext(t.Context(), tool(t, "helm"), args...)
		var problems bytes.Buffer
		command.Stderr = &problems
		out, err := command.Output()
		if err != nil {
			t.Fatalf("helm template: %v\n%s", err, problems.String())
		}
		return parse(t, bytes.ReplaceAll(out, []byte("name: setup-1\n"), []byte("name: setup\n")))
	}
	all := func(m manifest) map[string]string {
		objects := map[string]string{}
		for _, o := range m {
			if o.kind != "Namespace" {
				objects[o.kind+" "+o.name] = string(o.text)
			}
		}
		return objects
	}
	got, want := all(helm()), all(render(t, "overlays/production"))
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: the chart renders\n%s\nwant\n%s", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("the chart has %s, the overlay has not", name)
		}
	}
	small := helm("--set", "nats.enabled=false,scaling.enabled=false,monitoring.enabled=false,ingress.enabled=false",
		"--set", "image.prefix=registry.example.com/a/,image.tag=v1,config=demo: true,environment.LOG_LEVEL=WARN", "--namespace", "other")
	text := string(mustYAML(t, all(small)))
	for _, want := range []string{"registry.example.com/a/gateway:v1", "demo: true", "WARN", "other"} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart with other values lacks %q", want)
		}
	}
	for _, unwanted := range []string{"StatefulSet", "ScaledObject", "ServiceMonitor", "Ingress "} {
		if strings.Contains(text, unwanted) {
			t.Errorf("the chart with other values has a %s", unwanted)
		}
	}
}

func mustYAML(t *testing.T, value any) []byte {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
