# Two commands do everything: `make` builds, `make test` passes the tests
# (as root it installs what they need with apt; elsewhere kernel tests skip).
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# HTTP/2 is for servers elsewhere: ours speak to proxies on this machine.
TAGS = nethttpomithttp2
LDFLAGS = -s -w -X stoplog/cmd.Version=$(VERSION)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
NFPM = github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
CORPUS ?=

.PHONY: deb rpm cross man completion docs build test check unit race minimum deps soak bench corpus efficacy tune fuzz clean install

build: stoplog

stoplog: FORCE
	CGO_ENABLED=0 $(GO) build -tags $(TAGS) -trimpath -ldflags '$(LDFLAGS)' -o stoplog .

FORCE:

test: deps check unit race minimum

deps:
	hack/test-deps

check:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'gofmt would change these'; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# Packages run one after the other: kernel tests make namespaces, and the
# machine may be small.
unit: build
	CGO_ENABLED=0 $(GO) test -p 2 ./...

# Without the end-to-end tests, which run another process.
race:
	$(GO) test -race -short -p 2 $$($(GO) list ./... | grep -v /e2e)

# The installed program must work when it is built with the oldest toolchain
# that go.mod accepts. Without a network that toolchain may be out of reach.
minimum: build
	@v=go$$(sed -n 's/^go //p' go.mod); \
	if GOTOOLCHAIN=$$v $(GO) version >/dev/null 2>&1; then \
		echo "end-to-end and packaging tests with $$v"; \
		GOTOOLCHAIN=$$v CGO_ENABLED=0 $(GO) test -count 1 -p 2 ./e2e ./packaging; \
	elif [ "$$STOPLOG_REQUIRE_KERNEL_TESTS" = 1 ]; then \
		echo "$$v cannot be had"; exit 1; \
	else \
		echo "$$v cannot be had: its tests are left out"; \
	fi

# What takes longer than a test may: a thousand rotations of each kind, 600 signals
# during rotations, two hundred kills, many more random timelines, a fresh Debian
# root.
soak: build
	STOPLOG_SOAK=1 CGO_ENABLED=0 $(GO) test -count 1 -p 1 -timeout 90m ./internal/source ./internal/bucket ./internal/detect ./internal/ledger ./e2e/... ./packaging/...

bench:
	CGO_ENABLED=0 $(GO) test -p 1 -run '^$$' -bench . -benchmem ./...

fuzz:
	hack/fuzz 20s

# The corpora are not part of this repository; CORPUS names their folder.
corpus: build
	@test -n '$(CORPUS)' || { echo 'usage: make corpus CORPUS=/path/to/corpus'; exit 2; }
	hack/corpus ./stoplog '$(CORPUS)'

# How many login attempts of real logs the default rules prevent, and how many
# good logins they refuse.
efficacy: build
	@test -n '$(CORPUS)' || { echo 'usage: make efficacy CORPUS=/path/to/corpus'; exit 2; }
	hack/efficacy ./stoplog '$(CORPUS)'

# What tune proposes by half a January of each host of the corpus, and what that
# does in February. RULES names other rules than the built-in ones.
tune: build
	@test -n '$(CORPUS)' || { echo 'usage: make tune CORPUS=/path/to/corpus [RULES=rules.yaml]'; exit 2; }
	hack/tune ./stoplog '$(CORPUS)/hosts' $(RULES)

clean:
	rm -rf stoplog dist

# Manual pages and completions, generated from the commands.
man:
	rm -rf dist/man
	CGO_ENABLED=0 $(GO) run -tags man -ldflags '$(LDFLAGS)' . man dist/man
	gzip -9nf dist/man/*.8

completion: build
	mkdir -p dist/completion
	./stoplog completion bash >dist/completion/stoplog.bash
	./stoplog completion zsh >dist/completion/_stoplog
	./stoplog completion fish >dist/completion/stoplog.fish

# What docs/ has from the code: the reference of the rules and their schema.
docs:
	$(GO) generate ./docs

# Packages for this machine's architecture, in dist/.
deb rpm: build man completion
	NFPM_VERSION=$$(hack/package-version '$(VERSION)') NFPM_ARCH=$$($(GO) env GOARCH) $(GO) run $(NFPM) package -f packaging/nfpm.yaml -p $@ -t dist/

# A static binary for each Linux that is supported, and that the rest compiles.
cross:
	mkdir -p dist
	set -e; for t in linux/amd64 linux/arm64 linux/arm/7 linux/riscv64 freebsd/amd64 openbsd/amd64 darwin/arm64; do \
		os=$${t%%/*}; rest=$${t#*/}; arch=$${rest%%/*}; arm=$${rest#*/}; [ "$$arm" = "$$arch" ] && arm=; \
		echo "$$os $$arch$${arm:+v$$arm}"; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch GOARM=$$arm $(GO) build -tags $(TAGS) -trimpath -ldflags '$(LDFLAGS)' -o dist/stoplog-$$os-$$arch$${arm:+v$$arm} .; \
	done
