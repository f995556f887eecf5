# Every check is one of these targets, and .ci/run calls them as they stand here.
# "make test" and "make demo" are the two that a newcomer needs.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

# What a release is built with. No cgo: a static program starts faster and
# carries no resolver of the host's. No path, no revision and no build id: equal
# sources give equal bytes. exe, not pie: relocation costs the gate a quarter of
# its start.
GOBUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false -buildmode=exe -ldflags='-s -w -buildid='

# Length of one fuzz run, and the number of rounds of "make bench".
FUZZTIME ?= 5s
ROUNDS   ?= 300

# Size of the model test, and further flags of the overlays' runner.
MODEL    ?= -rapid.checks=500 -rapid.steps=50
OVERLAYS ?=

# Build tags of the tests that have targets of their own.
TAGS := attacks,faults,hosts,kills,load,system

# Packages that behave otherwise for root than for anybody else.
BY_UID := ./broker ./cmd/guard/cli ./e2e ./gate ./launcher ./internal/client ./internal/hookrun ./internal/passphrase ./internal/paths \
	./internal/peer ./internal/safepath ./internal/sdunit ./internal/tree

VULNDB := golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018

.PHONY: help build test test-user race demo bench bench-broker load fuzz lint vuln gen-check repro hosts hosts-test holes bench-launch packages package-test system system-test attacks faults kills overlays nightly clean

help: ## what each target is for
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

build: ## the programs, into bin/
	@mkdir -p bin
	@for program in cmd/*; do (set -x; $(GOBUILD) -o bin/ ./$$program); done

test: ## all tests; again with failpoints where a package has them
	go test ./...
	@packages=$$(tools/list failpoint); set -x; go test -tags failpoint $$packages

test-user: ## the tests whose outcome depends on who runs them, by an ordinary user; root makes one for it
	tools/test-user $(BY_UID)

race: ## the same under the race detector
	CGO_ENABLED=1 go test -race ./...
	@packages=$$(tools/list failpoint); set -x; CGO_ENABLED=1 go test -race -tags failpoint $$packages

demo: build ## the story on this machine: no root, no network, nothing left behind
	@bin/guard demo

bench: build ## the gate beside a static C program and hooks in node and Python, then what a call costs the broker
	go run ./bench -rounds $(ROUNDS)
	go test -run '^$$' -bench . ./internal/strictjson ./internal/peer ./internal/audit
	go test -run '^$$' -bench . -benchtime 60x ./broker/checkpoint

bench-broker: build ## authorize, durable passes and the audit writer, each beside the same work without its promises
	go run ./bench/broker -check

fuzz: ## every fuzzer for FUZZTIME
	@tools/fuzz $(FUZZTIME)

lint: bin/tools/golangci-lint ## format and linters
	@test -z "$$(gofmt -l $$(tools/list go))" || { gofmt -d $$(tools/list go); exit 1; }
	bin/tools/golangci-lint run ./...
	bin/tools/golangci-lint run --build-tags $(TAGS) ./...
	bin/tools/staticcheck ./...
	bin/tools/staticcheck -tags $(TAGS) ./...
	@packages=$$(tools/list failpoint); set -x; bin/tools/staticcheck -tags failpoint $$packages

vuln: bin/tools/golangci-lint ## known vulnerabilities, from a pinned offline data base
	@db=$$(go mod download -json $(VULNDB) | sed -n 's/^\t"Dir": "\(.*\)",*$$/\1/p'); \
	bin/tools/govulncheck -format json -db "file://$$db/data/osv" ./... \
	| go run ./internal/house/vulngate -allow tools/vuln-allow.txt

gen-check: ## module files are tidy, generated files are what their generators write
	go mod tidy -diff
	cd tools && go mod tidy -diff
	cd tools/nfpm && go mod tidy -diff
	go mod verify
	@before=$$(git status --porcelain | sort; git diff | sha256sum); go generate ./...; \
	after=$$(git status --porcelain | sort; git diff | sha256sum); \
	test "$$before" = "$$after" || { echo "go generate changed files: commit what it wrote"; git status --short; exit 1; }

repro: build ## builds again in another directory with an empty cache; the bytes must be equal
	@tools/repro

load: build ## 10,000 hung connections and 10,000 sessions, with real processes, one test at a time
	go test -count=1 -tags load -v -timeout 10m ./e2e/load
	go test -run '^$$' -bench . -benchtime 2000x ./broker/session

hosts: ## the pinned real clients, from npm, into bin/hosts
	$(MAKE) -C e2e/hosts install

hosts-test: build ## the real clients against a scripted model, as an ordinary user; the holes shown are those written down
	$(MAKE) -C e2e/hosts test

holes: build ## writes down what the suite of real clients has shown: internal/holes, and the table in docs/hosts.md; root
	$(MAKE) -C e2e/hosts holes

bench-launch: build hosts ## what guard launch adds to a start of the real client
	go test -count=1 -tags hosts -exec "$$PWD/e2e/hosts/exec" -v -run '^TestStartUp$$' ./e2e/hosts -startup 15

packages: build bin/tools/nfpm ## dist/*.deb and dist/*.rpm, the same bytes each time
	@rm -rf dist
	@tools/packages dist

package-test: packages ## install, upgrade, removal and purge in a fresh Debian; root
	@packaging/test/run

system: build hosts ## system mode on this machine, in a mount namespace of its own; root
	go test -count=1 -tags system ./e2e/system

system-test: packages ## a booted Debian: systemd, the broker as a service, attacks; root, qemu
	@e2e/system/qemu/run

attacks: ## attacks on identity by real processes, as on three kernels, by root and by an ordinary user
	go test -count=1 -tags attacks ./e2e/attacks

faults: ## what the programs stand on is taken away: disks, descriptors, peers, the clock; root for all of it
	go test -count=1 -tags faults ./e2e/faults
	go test -count=1 -tags faults -run '^TestRandomFaults$$' ./gate

kills: ## a real broker killed at random under load; its answers in one order; the model of broker, crash and restart
	go test -count=1 -timeout 60m -tags kills ./e2e/kills
	go test -count=1 -timeout 60m -tags failpoint -run '^TestModel$$' ./broker $(MODEL)

overlays: ## each defence taken out, one at a time: exactly its test has to turn red
	go run ./internal/house/overlays $(OVERLAYS)

nightly: lint vuln gen-check repro race ## what takes too long for each change
	$(MAKE) fuzz FUZZTIME=5m
	$(MAKE) bench ROUNDS=2000
	$(MAKE) bench-launch
	GUARD_SIZE=nightly $(MAKE) hosts-test attacks faults kills load MODEL='-rapid.checks=4000 -rapid.steps=100'
	GUARD_SIZE=nightly go test -count=1 -timeout 30m -run '^TestRandomFlips$$' ./broker/store
	$(MAKE) overlays OVERLAYS=-all
	$(MAKE) package-test system-test
	CGO_ENABLED=1 go test -race -count 7 -cpu 1,2,4 -shuffle on ./broker/... ./internal/peer/...

clean: ## what the others have built
	rm -rf bin dist

bin/tools/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@mkdir -p bin/tools
	cd tools/nfpm && CGO_ENABLED=0 go build -trimpath -o ../../bin/tools/ tool
	@touch $@

# The tools are built once from their own module, whose go.sum pins every byte.
bin/tools/golangci-lint: tools/go.mod tools/go.sum
	@mkdir -p bin/tools
	cd tools && CGO_ENABLED=0 go build -trimpath -o ../bin/tools/ tool
	@touch $@
