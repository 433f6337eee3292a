# Go and make are all that `make dev` and `make test` need.

SHELL       := bash
SERVICES    := gateway agent-runner tool-executor history hub
STANDALONE  := agent-server
PLATFORMS   ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
BINARIES    := agentbus $(SERVICES) $(STANDALONE)
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS     := -s -w -X github.com/agentbus/agentbus/pkg/service.version=$(VERSION)
LINT        := .tmp/bin/golangci-lint
LINTVERSION := v2.15.0
FUZZTIME    ?= 10s
BENCHTIME   ?= 1s
BENCHFLAGS  ?=
SEEDS       ?= 1
DURATION    ?= 45s
CHAOSFLAGS  ?=
K8SVERSION  := 1.30
VULNCHECK   := .tmp/bin/govulncheck
VULNVERSION := v1.1.4
VULNDB      ?= https://vuln.go.dev
MCPSUITE    := 0.2.0-alpha.12
MCPCLIENT   := initialize tools_call sse-retry request-metadata http-standard-headers http-invalid-tool-headers \
               json-schema-ref-no-deref json-schema-2020-12-preservation sep-2322-client-request-state \
               elicitation-sep1034-client-defaults http-custom-headers auth/client-credentials-basic \
               $(addprefix auth/,metadata-default metadata-var1 metadata-var2 metadata-var3 metadata-issuer-mismatch basic-cimd \
               pre-registration scope-from-www-authenticate scope-from-scopes-supported scope-omitted-when-undefined scope-step-up \
               scope-retry-limit token-endpoint-auth-basic token-endpoint-auth-post token-endpoint-auth-none \
               2025-03-26-oauth-metadata-backcompat 2025-03-26-oauth-endpoint-fallback resource-mismatch offline-access-scope \
               offline-access-not-supported authorization-server-migration iss-supported iss-not-advertised iss-supported-missing \
               iss-wrong-issuer iss-unexpected iss-normalized)
CONCURRENT  := ./pkg/bus/... ./pkg/client/... ./pkg/service/... ./pkg/rediscache/... ./services/...

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: dev
dev: ## run everything in one process, on embedded servers
	@echo "compiling agentbus; the first time takes minutes"
	go run -ldflags '$(LDFLAGS)' ./cmd/agentbus dev

.PHONY: build
build: ## build all binaries into bin/
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/agentbus ./cmd/agentbus
	@for service in $(SERVICES) $(STANDALONE); do \
		echo "CGO_ENABLED=0 go build -o bin/$$service ./services/$$service/cmd"; \
		CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/$$service ./services/$$service/cmd || exit 1; \
	done

# The tests type-check all of these in a tenth of the time (pkg/archtest/platforms).
.PHONY: cross
cross: ## build all binaries for PLATFORMS (linux, darwin and windows on amd64 and arm64), and keep none
	@for platform in $(PLATFORMS); do \
		echo "build for $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} \
			go build -trimpath -ldflags '$(LDFLAGS)' ./cmd/agentbus $(patsubst %,./services/%/cmd,$(SERVICES) $(STANDALONE)) || exit 1; \
	done

.PHONY: release
release: ## build archives with checksums for PLATFORMS into dist/
	go run ./cmd/release -version '$(VERSION)' -ldflags '$(LDFLAGS)' -platforms '$(PLATFORMS)' -services '$(SERVICES) $(STANDALONE)'

.PHONY: images
images: image-files ## build an image of each program with docker or buildah (IMAGE_PREFIX, VERSION, IMAGE_STORE; docs/deploy.md)
	@deploy/images.sh build out/image '$(VERSION)' $(BINARIES)

.PHONY: image-files
image-files:
	@rm -rf out/image && mkdir -p out/image/bin
	CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags '$(LDFLAGS)' -o out/image/bin/ ./cmd/agentbus
	@for service in $(SERVICES) $(STANDALONE); do \
		echo "CGO_ENABLED=0 go build -o out/image/bin/$$service ./services/$$service/cmd"; \
		CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags '$(LDFLAGS)' -o out/image/bin/$$service ./services/$$service/cmd || exit 1; \
	done
	@deploy/images.sh files out/image '$(VERSION)' $(BINARIES)

.PHONY: compose-check
compose-check: ## check docker-compose.yml, and the files that it mounts, against the services
	go test -count=1 -run 'Compose|Dockerfile|Configurations|Prometheus|Dashboards' ./deploy/deploytest

.PHONY: k8s-check
k8s-check: .tmp/bin/kubectl-validate .tmp/bin/helm ## check k8s/: overlays, custom resources, Pod Security, NetworkPolicies, scaling, and the chart (needs kubectl)
	@rm -rf .tmp/k8s && mkdir -p .tmp/k8s
	@for dir in overlays/dev overlays/production overlays/smoke ingress httproute nack; do kubectl kustomize k8s/$$dir >.tmp/k8s/$${dir##*/}.yaml || exit 1; done
	.tmp/bin/kubectl-validate --version $(K8SVERSION) --local-crds k8s/crds .tmp/k8s
	.tmp/bin/helm lint --quiet k8s/chart
	AGENTBUS_REQUIRE_DEPLOY_TOOLS=1 go test -count=1 ./deploy/deploytest

.PHONY: smoke
smoke: image-files ## run the images and the manifests with podman, and stream a request through them
	@deploy/smoke.sh

.PHONY: chart
chart: ## write the templates of the chart (k8s/chart) again, from k8s/overlays/production
	AGENTBUS_REQUIRE_DEPLOY_TOOLS=1 go test -count=1 -run TestChartIsGenerated ./deploy/deploytest -args -update

.tmp/bin/kubectl-validate:
	GOBIN=$(CURDIR)/.tmp/bin go install sigs.k8s.io/kubectl-validate@v0.0.4

.tmp/bin/helm:
	GOBIN=$(CURDIR)/.tmp/bin go install helm.sh/helm/v4/cmd/helm@v4.3.0

.PHONY: test
test: ## run all tests, also against the mock of the model APIs (services/e2e/aimock, with npm)
	go test ./...
	go test -tags chaos ./pkg/bus/weakbus ./pkg/app

.PHONY: race
race: ## run the tests of the concurrent packages under the race detector
	go test -race -timeout 30m $(CONCURRENT)

.PHONY: e2e
e2e: ## run the end-to-end suite against separate processes
	go test -count=1 -timeout 20m ./services/e2e -args -stack=processes
	go test -count=1 ./services/e2e/browser

.PHONY: browser
browser: ## test Tarko's page in Chromium, and leave pictures of it in out/browser
	@mkdir -p out/browser
	AGENTBUS_REQUIRE_SERVERS=1 go test -count=1 ./services/e2e/browser -args -pictures=$(CURDIR)/out/browser

.PHONY: test-clients
test-clients: ## install the published clients of the protocols (npm), and test them and the packages of clients/ with the gateway
	cd services/e2e/clients && npm ci --no-audit --no-fund --silent
	for package in typescript typescript-agent; do (cd clients/$$package && npm ci --no-audit --no-fund --silent) || exit 1; done
	go test -count=1 -timeout 15m ./services/e2e/clients -args -stack=processes
	go test -count=1 -run Conformance ./services/gateway

.PHONY: test-schemas
test-schemas: ## check the schemas with redocly, ajv, openapi-typescript and tsc (npm)
	cd services/e2e/clients && npm ci --no-audit --no-fund --silent && node schemas.test.mjs

# Making inputs small takes a minute each by default, and no new one is tried meanwhile.
.PHONY: mcp-conformance
mcp-conformance: ## run the official MCP conformance suite against /mcp and against the tool source (needs npm)
	@mkdir -p .tmp/mcp
	cd .tmp/mcp && npm install --no-save --no-audit --no-fund --silent --prefix . node@22 @modelcontextprotocol/conformance@$(MCPSUITE)
	go build -o .tmp/mcp/server ./services/hub/internal/mcp/mcptest
	go build -o .tmp/mcp/client ./pkg/tool/mcp/mcptest/client
	@cd .tmp/mcp && export PATH=$$PWD/node_modules/.bin:$$PATH && suite=node_modules/@modelcontextprotocol/conformance/dist/index.js && \
		: >server.url && \
		{ ./server >server.url 2>server.log & server=$$!; } && \
		trap "kill $$server" EXIT && \
		until read -r sessions url <server.url && [ -n "$$url" ]; do kill -0 $$server && sleep 0.2 || exit 1; done && \
		node $$suite server --url "$$sessions" && \
		node $$suite server --url "$$url" --requirements 2026-07-28 \
			--expected-failures $(CURDIR)/services/hub/internal/mcp/mcptest/expected.yaml && \
		for scenario in $(MCPCLIENT); do node $$suite client --command "$$PWD/client" --scenario $$scenario || exit 1; done

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@grep -rlE '^func Fuzz' --include='*_test.go' pkg services schemas cmd | sort | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
			echo "fuzz $$target in $$(dirname "$$file")"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "./$$(dirname "$$file")" || exit 1; \
		done; \
	done

.PHONY: bench
bench: ## measure the product, in processes, beside a plain HTTP server (BENCHFLAGS="-only first")
	go run ./cmd/bench $(BENCHFLAGS)

.PHONY: chaos
chaos: ## do harm to separate processes under load, and check every promise (SEEDS=14 DURATION=60s CHAOSFLAGS="-nodes both -users 32 -gap 1.1s -require")
	go run ./cmd/chaos -seeds $(SEEDS) -duration $(DURATION) $(CHAOSFLAGS)

.PHONY: real-cli
real-cli: ## run Claude Code, Codex and OpenCode from npm against a model that answers by script (needs Node)
	npm install --no-audit --no-fund --prefix .tmp/cli @anthropic-ai/claude-code@2.1.329 @openai/codex@0.169.0 opencode-ai@1.18.33 \
		@agentclientprotocol/codex-acp@2.6.0
	cd .tmp/cli/node_modules/@anthropic-ai/claude-code && node install.cjs
	cd .tmp/cli/node_modules/opencode-ai && node postinstall.mjs
	AGENTBUS_REAL_CLI=$(CURDIR)/.tmp/cli/node_modules go test -count=1 -v -run TestReal ./pkg/backend/cli

.PHONY: microbench
microbench: ## run the benchmarks of single packages for BENCHTIME (1s) each
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: generate
generate: ## write generated files again
	go generate ./...

.PHONY: lint
lint: $(LINT) ## run the linters
	$(LINT) run

$(LINT):
	GOBIN=$(CURDIR)/.tmp/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINTVERSION)

.PHONY: verify
verify: ## check formatting, vet, generated files and lint
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -l); \
		if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(MAKE) generate
	git diff --exit-code
	$(MAKE) lint

# A build without the database must not look like one without findings, so that it says which of the two it is.
.PHONY: vuln
vuln: ## verify the modules, and look for known vulnerabilities (fails without the database if AGENTBUS_REQUIRE_VULNDB=1)
	go mod verify
	@if curl -fsS -m 20 -o /dev/null $(VULNDB)/index/db.json; then \
		$(MAKE) --no-print-directory $(VULNCHECK) && $(VULNCHECK) -db $(VULNDB) ./...; \
	else \
		echo "vuln: NOT CHECKED: the vulnerability database $(VULNDB) cannot be reached"; \
		[ "$$AGENTBUS_REQUIRE_VULNDB" != 1 ]; \
	fi

$(VULNCHECK):
	GOBIN=$(CURDIR)/.tmp/bin go install golang.org/x/vuln/cmd/govulncheck@$(VULNVERSION)

.PHONY: up
up: build ## start the services in the background and wait until they are ready (settings: docs/operate.md)
	@deploy/up.sh start $(SERVICES)

.PHONY: down
down: ## stop what `make up` started
	@deploy/up.sh stop $(SERVICES)

.PHONY: clean
clean: ## remove what make made
	rm -rf bin out dist
