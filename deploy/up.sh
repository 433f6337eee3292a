#!/usr/bin/env bash
# Starts services as processes in the background and waits until they are ready, or stops them: `make up`, `make down`.
#
#   deploy/up.sh start|stop SERVICE...
#
# BIN has the programs, RUN gets their logs and process ids. ADMIN_PORT is the port before that of the first admin server.
# The settings of the services are environment variables: docs/operate.md.
set -euo pipefail

bin=${BIN:-bin} run=${RUN:-.tmp/run} admin_port=${ADMIN_PORT:-9100} limit=${UP_TIMEOUT:-60}

alive() { [ -f "$run/$1.pid" ] && kill -0 "$(cat "$run/$1.pid")" 2>/dev/null; }

# launch SERVICE ADMIN_ADDR
launch() {
	local http=${HTTP_ADDR:-127.0.0.1:8080}
	if [ "$1" = hub ]; then http=${HUB_ADDR:-127.0.0.1:8081}; fi
	ADMIN_ADDR=$2 HTTP_ADDR=$http NATS_PROVISION=${NATS_PROVISION:-create} CONFIG_FILE=${CONFIG_FILE:-deploy/demo.yaml} \
		nohup "$bin/$1" >"$run/$1.log" 2>&1 &
	echo $! >"$run/$1.pid"
}

# await SERVICE ADMIN_ADDR: returns 0 when the service is ready.
await() {
	local deadline=$((SECONDS + limit))
	until curl -fsS -m 2 -o /dev/null "http://$2/readyz" 2>/dev/null; do
		if ! alive "$1"; then
			echo "$1: ended; the last line of $run/$1.log:" >&2
			tail -n 1 "$run/$1.log" | sed 's/^/  /' >&2
			rm -f "$run/$1.pid"
			return 1
		fi
		if [ $SECONDS -ge $deadline ]; then
			echo "$1: not ready after $limit s (log $run/$1.log): $(curl -sS -m 2 "http://$2/readyz" 2>&1)" >&2
			return 1
		fi
		sleep 0.2
	done
	echo "$1: ready; pid $(cat "$run/$1.pid"), log $run/$1.log, health http://$2/readyz"
}

# used PORT: returns 0 if a process listens on it.
used() { (: >"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start() {
	local service address port=$admin_port failed=0 started=""
	mkdir -p "$run"
	for service in "$@"; do
		port=$((port + 1))
		if [ "$service" = hub ] && [ -z "${HUB_SECRET:-}${HUB_SECRET_FILE:-}" ]; then
			echo "hub: not started; HUB_SECRET is not set"
		elif alive "$service"; then
			echo "$service: runs already"
		else
			while used "$port"; do port=$((port + 1)); done
			launch "$service" "127.0.0.1:$port"
			started="$started $service=127.0.0.1:$port"
		fi
	done
	for address in $started; do
		await "${address%%=*}" "${address#*=}" || failed=1
	done
	return $failed
}

stop() {
	local service pid
	for service in "$@"; do
		[ -f "$run/$service.pid" ] || continue
		pid=$(cat "$run/$service.pid")
		kill "$pid" 2>/dev/null || true
		for _ in $(seq 300); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		rm -f "$run/$service.pid"
		echo "$service stopped"
	done
}

"$@"
