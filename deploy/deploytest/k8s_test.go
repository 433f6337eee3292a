package deploytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// tool returns the path of a program that `make k8s-check` has; other runs skip the test without it.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, candidate := range []string{filepath.Join(root, ".tmp/bin", name), name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	if os.Getenv("AGENTBUS_REQUIRE_DEPLOY_TOOLS") != "" {
		t.Fatalf("%s is missing", name)
	}
	t.Skipf("%s is missing; make k8s-check installs it", name)
	return ""
}

// object is a Kubernetes object: its kind, its name, and all of it.
type object struct {
	kind, name string
	text       []byte // JSON
}

// into decodes the object; unknown fields are errors.
func (o object) into(t *testing.T, target any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(o.text))
	d.DisallowUnknownFields()
	if err := d.Decode(target); err != nil {
		t.Fatalf("%s %s: %v", o.kind, o.name, err)
	}
}

// manifest is the objects of an overlay.
type manifest []object

func parse(t *testing.T, text []byte) manifest {
	t.Helper()
	var all manifest
	for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
		var value map[string]any
		if err := yaml.Unmarshal([]byte(document), &value); err != nil {
			t.Fatal(err)
		}
		if value == nil {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		metadata, _ := value["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		kind, _ := value["kind"].(string)
		all = append(all, object{kind, name, text})
	}
	return all
}

// render returns what `kubectl apply -k` applies.
func render(t *testing.T, dir string) manifest {
	t.Helper()
	return parse(t, kustomize(t, dir))
}

func kustomize(t *testing.T, dir string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, "kubectl"), "kustomize", filepath.Join(root, "k8s", dir)).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("kubectl kustomize %s: %s", dir, failed.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func find[T any](t *testing.T, m manifest, kind, name string) T {
	t.Helper()
	var found T
	i := slices.IndexFunc(m, func(o object) bool { return o.kind == kind && o.name == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	m[i].into(t, &found)
	return found
}

func (m manifest) has(kind, name string) bool {
	return slices.ContainsFunc(m, func(o object) bool { return o.kind == kind && o.name == name })
}

func overlays() []string { return []string{"overlays/dev", "overlays/production"} }

// services are those of the overlays.
func services() []string { return []string{"gateway", "agent-runner", "tool-executor", "history"} }

// pods returns the pods that a manifest makes, by the name of what makes them.
func pods(t *testing.T, m manifest) map[string]corev1.PodTemplateSpec {
	t.Helper()
	all := map[string]corev1.PodTemplateSpec{}
	for _, o := range m {
		switch o.kind {
		case "Deployment":
			all[o.name] = find[appsv1.Deployment](t, m, o.kind, o.name).Spec.Template
		case "StatefulSet":
			all[o.name] = find[appsv1.StatefulSet](t, m, o.kind, o.name).Spec.Template
		case "Job":
			all[o.name] = find[batchv1.Job](t, m, o.kind, o.name).Spec.Template
		}
	}
	return all
}

func TestPodsFitTheRestrictedPolicy(t *testing.T) {
	t.Parallel()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, overlay := range overlays() {
		m := render(t, overlay)
		if got := find[corev1.Namespace](t, m, "Namespace", "agentbus").Labels[api.EnforceLevelLabel]; got != "restricted" {
			t.Errorf("%s: the namespace enforces %q", overlay, got)
		}
		for name, pod := range pods(t, m) {
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
			if !result.Allowed {
				t.Errorf("%s: %s: %s", overlay, name, result.ForbiddenDetail())
			}
			if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
				t.Errorf("%s: %s has the token of a service account", overlay, name)
			}
			for _, c := range pod.Spec.Containers {
				if !*c.SecurityContext.ReadOnlyRootFilesystem || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s: %s: a writable root file system, or no memory requested or limited", overlay, name)
				}
			}
			if account := pod.Spec.ServiceAccountName; account != "" && !m.has("ServiceAccount", account) {
				t.Errorf("%s: %s: there is no service account %s", overlay, name, account)
			}
		}
	}
}

// environment returns the variables of a container, with the values that the development overlay's Secret gives to files.
func environment(t *testing.T, m manifest, c corev1.Container) env.Environ {
	t.Helper()
	secret := find[corev1.Secret](t, render(t, "overlays/dev"), "Secret", "agentbus-secrets").StringData
	vars := env.Environ{}
	for _, from := range c.EnvFrom {
		maps.Copy(vars, find[corev1.ConfigMap](t, m, "ConfigMap", from.ConfigMapRef.Name).Data)
	}
	for _, v := range c.Env {
		vars[v.Name] = v.Value
		if strings.HasSuffix(v.Name, "_FILE") {
			key := filepath.Base(v.Value)
			if secret[key] == "" {
				t.Errorf("%s: the Secret has no key %s", v.Name, key)
			}
			vars[v.Name] = secret[key]
		}
	}
	return vars
}

func TestDeploymentsFitTheServices(t *testing.T) {
	t.Parallel()
	for _, overlay := range overlays() {
		m := render(t, overlay)
		for name, pod := range pods(t, m) {
			if !slices.Contains(services(), name) {
				continue
			}
			c := pod.Spec.Containers[0]
			vars := environment(t, m, c)
			checkVariables(t, name, vars)
			if c.Image != "agentbus/"+name+":dev" || len(c.Args) > 0 {
				t.Errorf("%s: %s runs %s %q", overlay, name, c.Image, c.Args)
			}
			ports := map[string]string{}
			for _, p := range c.Ports {
				ports[p.Name] = strconv.Itoa(int(p.ContainerPort))
			}
			if want := setting(t, name, "ADMIN_ADDR", vars); ":"+ports["admin"] != want {
				t.Errorf("%s: %s: the port admin is %s, ADMIN_ADDR is %s", overlay, name, ports["admin"], want)
			}
			if p := programs()[name]; ports["http"] != p.port || p.port != "" && vars["HTTP_ADDR"] != ":"+p.port {
				t.Errorf("%s: %s: the port http is %q, HTTP_ADDR is %s", overlay, name, ports["http"], vars["HTTP_ADDR"])
			}
			checkProbes(t, name, c, ports)
			checkDrain(t, name, pod.Spec, vars)
			budget := find[policyv1.PodDisruptionBudget](t, m, "PodDisruptionBudget", name).Spec
			if budget.MaxUnavailable.IntValue() != 1 || budget.Selector.MatchLabels["app.kubernetes.io/name"] != name {
				t.Errorf("%s: the disruption budget of %s is %+v", overlay, name, budget)
			}
			if len(pod.Spec.TopologySpreadConstraints) != 2 {
				t.Errorf("%s: %s is not spread", overlay, name)
			}
		}
		setup := pods(t, m)["setup"].Spec.Containers[0]
		if checkVariables(t, "history", environment(t, m, setup)); setup.Image != "agentbus/history:dev" || !slices.Equal(setup.Args, []string{"setup"}) {
			t.Errorf("%s: setup runs %s %q", overlay, setup.Image, setup.Args)
		}
	}
}

func checkProbes(t *testing.T, name string, c corev1.Container, ports map[string]string) {
	t.Helper()
	for probe, want := range map[*corev1.Probe]string{c.StartupProbe: "/healthz", c.LivenessProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
		if probe == nil || probe.HTTPGet.Path != want || ports[probe.HTTPGet.Port.String()] == "" {
			t.Errorf("%s: a probe is %+v, want %s on a port of the container", name, probe, want)
		}
	}
	// At /readyz of the admin port a gateway is not ready while the streams are nearly full, but its streams and reads still work.
	if want := map[bool]string{true: "http", false: "admin"}[name == "gateway"]; c.ReadinessProbe.HTTPGet.Port.String() != want {
		t.Errorf("%s: the readiness probe asks the port %s, want %s", name, c.ReadinessProbe.HTTPGet.Port.String(), want)
	}
}

func checkDrain(t *testing.T, name string, pod corev1.PodSpec, vars env.Environ) {
	t.Helper()
	grace := *pod.TerminationGracePeriodSeconds
	if hook := pod.Containers[0].Lifecycle; hook != nil {
		grace -= hook.PreStop.Sleep.Seconds
	} else if name == "gateway" {
		t.Error("gateway: it stops before load balancers stop sending requests")
	}
	checkStop(t, name, (time.Duration(grace) * time.Second).String(), setting(t, name, "GRACE", vars))
}

func TestTrafficIsDeniedUnlessAllowed(t *testing.T) {
	t.Parallel()
	wanted := map[string][]string{
		"gateway": {"4222", "6379", "443"}, "agent-runner": {"4222", "6379", "443"}, "tool-executor": {"4222", "443"},
		"history": {"4222", "5432"}, "setup": {"4222", "5432"}, "monitoring": {"4318"},
	}
	for _, overlay := range overlays() {
		m := render(t, overlay)
		deny := find[networkingv1.NetworkPolicy](t, m, "NetworkPolicy", "default-deny").Spec
		if len(deny.PodSelector.MatchLabels) > 0 || len(deny.PolicyTypes) != 2 || len(deny.Ingress)+len(deny.Egress) > 0 {
			t.Errorf("%s: default-deny is %+v", overlay, deny)
		}
		for name, want := range wanted {
			var got []string
			for _, rule := range find[networkingv1.NetworkPolicy](t, m, "NetworkPolicy", name).Spec.Egress {
				for _, p := range rule.Ports {
					got = append(got, p.Port.String())
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s may connect to ports %q, want %q", overlay, name, got, want)
			}
		}
	}
}

func TestGatewayScalesByAMetricThatExists(t *testing.T) {
	t.Parallel()
	m := render(t, "overlays/production")
	scaler := find[autoscalingv2.HorizontalPodAutoscaler](t, m, "HorizontalPodAutoscaler", "gateway").Spec
	if name := scaler.Metrics[0].Pods.Metric.Name; !slices.Contains(exported(t), name) {
		t.Errorf("the services do not export %s", name)
	}
	for _, name := range []string{"gateway", "agent-runner", "tool-executor"} {
		if n := find[appsv1.Deployment](t, m, "Deployment", name).Spec.Replicas; n != nil {
			t.Errorf("%s: the manifest has %d replicas: each apply would undo what the scaler did", name, *n)
		}
		if m.has("ScaledObject", name) && m.has("HorizontalPodAutoscaler", name) {
			t.Errorf("%s has two scalers", name)
		}
	}
}

func TestMetricsServiceSelectsTheServices(t *testing.T) {
	t.Parallel()
	m := render(t, "overlays/production")
	service := find[corev1.Service](t, m, "Service", "agentbus-metrics")
	for _, name := range services() {
		labels := pods(t, m)[name].Labels
		for key, value := range service.Spec.Selector {
			if labels[key] != value {
				t.Errorf("Prometheus does not find %s: label %s is %q, want %q", name, key, labels[key], value)
			}
		}
	}
	var monitor struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            struct {
			Selector  metav1.LabelSelector `json:"selector"`
			Endpoints []struct {
				Port, Path, Interval string
				Relabelings          []any
			} `json:"endpoints"`
		} `json:"spec"`
	}
	for _, o := range m {
		if o.kind == "ServiceMonitor" {
			o.into(t, &monitor)
		}
	}
	if len(monitor.Spec.Endpoints) != 1 || monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name ||
		service.Labels["app.kubernetes.io/name"] != monitor.Spec.Selector.MatchLabels["app.kubernetes.io/name"] {
		t.Errorf("the ServiceMonitor %+v does not select the Service %+v", monitor.Spec, service.Spec)
	}
}

// The configurations contain variables of the environment, so the test is not parallel.
func TestNATSOfTheOverlays(t *testing.T) {
	t.Setenv("POD_NAME", "nats-0")
	t.Setenv("NATS_PASSWORD", "a")
	t.Setenv("NATS_SYSTEM_PASSWORD", "b")
	for _, overlay := range overlays() {
		m := render(t, overlay)
		file := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(file, []byte(find[corev1.ConfigMap](t, m, "ConfigMap", "nats-config").Data["nats.conf"]), 0o600); err != nil {
			t.Fatal(err)
		}
		options, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Errorf("%s: %v", overlay, err)
			continue
		}
		set := find[appsv1.StatefulSet](t, m, "StatefulSet", "nats")
		replicas := int(*set.Spec.Replicas)
		if routes := len(options.Routes); routes != replicas && replicas != 1 || options.SyncAlways != (replicas > 1) {
			t.Errorf("%s: %d routes of %d servers, sync always is %v", overlay, routes, replicas, options.SyncAlways)
		}
		copies := find[corev1.ConfigMap](t, m, "ConfigMap", "agentbus-environment").Data["NATS_REPLICAS"]
		if copies != strconv.Itoa(replicas) {
			t.Errorf("%s: NATS_REPLICAS=%s with %d servers", overlay, copies, replicas)
		}
		if image := set.Spec.Template.Spec.Containers[0].Image; image != "nats:"+server.VERSION+"-alpine" {
			t.Errorf("%s: the NATS server is %s, but the tests run with %s", overlay, image, server.VERSION)
		}
		if len(options.Accounts) != 2 || options.SystemAccount != "SYS" || options.LameDuckDuration.Seconds() >= float64(*set.Spec.Template.Spec.TerminationGracePeriodSeconds) {
			t.Errorf("%s: %d accounts, system account %q, lame duck for %s", overlay, len(options.Accounts), options.SystemAccount, options.LameDuckDuration)
		}
	}
}
