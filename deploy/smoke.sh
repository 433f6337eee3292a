#!/usr/bin/env bash
# Runs the images and the manifests of k8s/overlays/smoke with podman, sends a request to the gateway, and removes everything:
# `make smoke`. NATS and Redis run as processes of the machine. It needs the files of `make image-files`.
set -euo pipefail

programs=(gateway agent-runner tool-executor history)
ports=(14222 16379 18080 9191 9192 9193 9194) # those of k8s/overlays/smoke

missing=()
for tool in podman buildah runc redis-server kubectl curl; do
	command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ "${#missing[@]}" -gt 0 ]; then
	echo "smoke: not run: ${missing[*]} missing; on Debian: apt-get install podman buildah runc redis-server curl, and kubectl" >&2
	exit 1
fi
for port in "${ports[@]}"; do
	if (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
		echo "smoke: not run: another process listens on port $port" >&2
		exit 1
	fi
done

work=$(mktemp -d "${TMPDIR:-/tmp}/agentbus-smoke.XXXXXX")
export IMAGE_STORE=$work/images CONTAINERS_CONF=$work/containers.conf
podman=(podman --root "$IMAGE_STORE/root" --runroot "$IMAGE_STORE/run" --storage-driver vfs)
pids=()

down() {
	local status=$?
	set +e
	if [ "$status" -ne 0 ]; then
		for program in "${programs[@]}"; do
			"${podman[@]}" logs "$program-pod-0-$program" 2>&1 | tail -n 3
		done
	fi
	"${podman[@]}" pod rm --force --all --time 40 >/dev/null 2>&1
	"${podman[@]}" volume rm --all --force >/dev/null 2>&1
	if [ -n "$("${podman[@]}" ps --all --quiet)" ]; then
		echo "smoke: containers are left" >&2
		status=1
	fi
	for pid in "${pids[@]}"; do
		kill "$pid" && wait "$pid"
	done 2>/dev/null
	rm -rf "$work"
	exit "$status"
}
trap down EXIT

# A network and a cgroup manager that need no privileges but those of a container in which this may run.
cat >"$CONTAINERS_CONF" <<'X'
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
netns = "host"
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
infra_image = "localhost/pause:dev"
X

images() {
	IMAGE_PREFIX=localhost/agentbus/ deploy/images.sh build out/image dev "${programs[@]}"
	mkdir "$work/pause"
	printf 'package main\n\nimport ("os"; "os/signal"; "syscall")\n\nfunc main() {\n\tc := make(chan os.Signal, 1)\n\tsignal.Notify(c, syscall.SIGTERM)\n\t<-c\n}\n' >"$work/pause/main.go"
	CGO_ENABLED=0 go build -o "$work/pause/pause" "$work/pause/main.go"
	printf 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n' >"$work/pause/Dockerfile"
	buildah --root "$IMAGE_STORE/root" --runroot "$IMAGE_STORE/run" --storage-driver vfs \
		bud --quiet --isolation chroot -t localhost/pause:dev "$work/pause" >/dev/null
}

servers() {
	go build -o "$work/nats-server" github.com/nats-io/nats-server/v2
	"$work/nats-server" -js -sd "$work/nats" -a 127.0.0.1 -p 14222 >"$work/nats.log" 2>&1 &
	pids+=($!)
	redis-server --port 16379 --bind 127.0.0.1 --save '' >"$work/redis.log" 2>&1 &
	pids+=($!)
}

images
servers
"${podman[@]}" run --rm --read-only -e NATS_URL=nats://127.0.0.1:14222 -e DATABASE_URL=sqlite::memory: localhost/agentbus/history:dev setup
# podman 4.3 runs no Jobs, and takes no part in what the other kinds mean.
kubectl kustomize k8s/overlays/smoke |
	awk 'BEGIN { RS = "\n---\n" } /(^|\n)kind: (ConfigMap|Deployment)\n/ { print $0 "\n---" }' >"$work/manifests.yaml"
"${podman[@]}" kube play --network host "$work/manifests.yaml" >/dev/null
curl -fsS --retry 60 --retry-delay 1 --retry-all-errors -o /dev/null http://127.0.0.1:18080/readyz
for program in "${programs[@]}"; do
	address=$("${podman[@]}" inspect "$program-pod-0-$program" --format '{{range .Config.Env}}{{println .}}{{end}}' | sed -n 's/^ADMIN_ADDR=//p')
	curl -fsS --retry 60 --retry-delay 1 --retry-all-errors -o /dev/null "http://$address/readyz"
	"${podman[@]}" exec "$program-pod-0-$program" "/$program" ready
	"${podman[@]}" inspect "$program-pod-0-$program" \
		--format "$program: ready, user {{.Config.User}}, read-only {{.HostConfig.ReadonlyRootfs}}, capabilities {{.EffectiveCaps}}"
done
answer=$(curl -fsSN --max-time 60 http://127.0.0.1:18080/v1/agents/demo/stream -H 'Content-Type: application/json' \
	-d '{"messages": [{"role": "user", "content": "/tool calculator {\"expression\":\"6*7\"}\n/say it works"}]}')
for expected in 'event: tool_result' '"summary":"6*7 = 42"' 'event: done'; do
	if ! grep -qF "$expected" <<<"$answer"; then
		echo "smoke: the stream lacks $expected:" >&2
		echo "$answer" >&2
		exit 1
	fi
done
echo "smoke: ok: a request was streamed through ${#programs[@]} containers"
