# A menu of commands. tools/ and the meson.build files implement them.

PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all help run test test-stock test-hub test-ruby check-all asan tsan valgrind browser fault fuzz aarch64 ucontext clang musl \
	cover bench bench-quick bench-guard bench-http bench-hub lint format man install clean

all: ## build the library, the command, the examples and the manual in build/ (the default)
	@tools/build plain -- products
	@echo "built: build/libweft.so, build/libweft-web.so, static libraries in build/src, build/weft, build/examples"

help: ## list the commands
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | awk -F '\t' '{ printf "  %-11s %s\n", $$1, $$2 }'

run: ## build the chat, start it and print its URL
	@tools/build plain -- examples/chat
	@exec build/examples/chat examples/chat

test: ## build and run the tests for this machine, and the smoke tests for aarch64 under qemu
	@tools/deps build test
	@tools/build plain aarch64
	@tools/run-tests plain aarch64

test-stock: ## run libpq, hiredis, libmariadb, libcurl, OpenLDAP and SQLite on fibers with real servers
	@tools/deps build stock
	@tools/build plain -- stock-programs
	@tests/stock/servers tools/run-tests plain -- --suite stock

test-hub: ## run the tests of hubs with NATS servers, which the tests also kill and stop
	@tools/deps build hub
	@tools/build plain -- hub-programs
	@tests/hub/servers tools/run-tests plain -- --suite hub

test-ruby: ## build the Ruby gem, and run its tests and Ruby's own tests of schedulers on each backend
	@tools/deps build ruby
	@tools/build plain -- products
	@tools/test-ruby

check-all: lint ## run lint, and the tests in every variant
	@tools/deps build test
	@tools/build plain aarch64 ucontext clang musl asan tsan valgrind
	@tools/run-tests plain aarch64 ucontext clang musl asan tsan valgrind

asan: ## run the tests under the address and undefined-behaviour sanitizers
tsan: ## run the tests under the thread sanitizer
valgrind: ## run the tests under Valgrind
aarch64: ## run the smoke tests for aarch64 under qemu
ucontext: ## run the tests with ucontext instead of assembly
clang: ## run the tests, built with clang
musl: ## run the tests of the core, built with musl and without optional libraries
asan tsan valgrind aarch64 ucontext clang musl:
	@tools/build $@
	@tools/run-tests $@

browser: ## test the web pages in a headless Chromium, and install Chromium if it is missing
	@tools/deps build browser
	@tools/build plain -- examples/chat examples/demo tests/inspected weft
	@tools/run-tests plain -- browser browser-chat browser-chat-cluster browser-inspector

fault: ## run the tests in which the n-th allocation or system call fails
	@tools/build plain
	@tools/run-tests plain -- --suite fault

fuzz: ## search for inputs that break the parsers, FUZZ_SECONDS (60) per parser
	@tools/fuzz

cover: ## measure the coverage of src/ by the tests
	@tools/cover

bench: ## measure weft and its peers, and write bench/report (up to 30 minutes)
	@tools/build plain -- bench-programs
	@tools/deps --some peers web-peers
	@tools/bench --out bench/report

bench-quick: ## run a short benchmark (about 2 minutes), and write build/report
	@tools/build plain -- bench-programs
	@tools/deps --some peers web-peers
	@tools/bench --quick --out build/report

bench-guard: ## count instructions and system calls, and fail if a count has grown
	@tools/deps guard
	@tools/build plain -- bench-programs
	@tools/bench-guard

bench-http: ## compare the web server with other servers
	@tools/deps web-peers
	@tools/build plain -- bench-programs
	@tools/bench-http

bench-hub: ## compare hubs with other clients of NATS
	@tools/deps --some build hub-peers
	@tools/build plain -- hub-bench-programs
	@tools/bench-hub

lint: ## check format, layers, comments, sizes and scripts
	@tools/lint

format: ## format the C sources with clang-format
	@tools/format

man: ## generate the man pages in build/docs from the headers
	@tools/build plain -- docs/man3
	@echo "try: man -M build/docs weft_spin"

install: ## install to PREFIX (/usr/local) below DESTDIR
	@tools/install "$(PREFIX)" "$(DESTDIR)"

clean: ## remove build/
	@rm -rf build
