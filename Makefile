# The menu. What each verb does is in tools/ and in the meson.build files.

PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all help run test check-all asan tsan valgrind browser fault fuzz aarch64 ucontext clang musl \
	cover bench bench-quick bench-guard bench-http lint format man install clean

all: ## build the library, the command and the examples into build/ (plain `make`)
	@tools/build plain -- products
	@echo "built: build/src/libweft.a, build/libweft.so, build/weft, build/examples"

help: ## list the verbs
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | awk -F '\t' '{ printf "  %-11s %s\n", $$1, $$2 }'

run: ## build the demonstration, start it, and say what to open
	@tools/build plain -- examples/demo weft
	@exec build/examples/demo examples/demo

test: ## build and run the tests, on this machine and for aarch64 under qemu
	@tools/deps build test
	@tools/build plain aarch64
	@tools/run-tests plain aarch64

check-all: lint ## everything: lint, and the tests in every variant
	@tools/deps build test
	@tools/build plain aarch64 ucontext clang musl asan tsan valgrind
	@tools/run-tests plain aarch64 ucontext clang musl asan tsan valgrind

asan: ## the tests under the address and undefined behaviour sanitizers
tsan: ## the tests under the thread sanitizer
valgrind: ## the tests under Valgrind
aarch64: ## the smoke tests for aarch64, under qemu
ucontext: ## the tests with ucontext in place of the assembly
clang: ## the tests built with clang
musl: ## the tests of the core, built with musl, without optional libraries
asan tsan valgrind aarch64 ucontext clang musl:
	@tools/build $@
	@tools/run-tests $@

browser: ## the pages in a headless Chromium, which is installed if it is not there
	@tools/deps build browser
	@tools/build plain -- examples/demo weft
	@tools/run-tests plain -- browser

fault: ## the tests in which the n-th allocation or system call fails
	@tools/build plain
	@tools/run-tests plain -- --suite fault

fuzz: ## search for inputs that break the parsers: each for FUZZ_SECONDS (60)
	@tools/fuzz

cover: ## which lines the tests reach
	@tools/cover

bench: ## measure weft and its peers, and write bench/report (up to 30 minutes)
	@tools/build plain -- bench-programs
	@tools/deps --some peers web-peers
	@tools/bench --out bench/report

bench-quick: ## the same in about two minutes, into build/report
	@tools/build plain -- bench-programs
	@tools/deps --some peers web-peers
	@tools/bench --quick --out build/report

bench-guard: ## count instructions and system calls, and fail where one has grown
	@tools/deps guard
	@tools/build plain -- bench-programs
	@tools/bench-guard

bench-http: ## compare the web server with others
	@tools/deps web-peers
	@tools/build plain -- bench-programs
	@tools/bench-http

lint: ## check format, layers, comments, sizes and scripts
	@tools/lint

format: ## let clang-format decide
	@tools/format

man: ## make the manual pages from the headers, in build/docs
	@tools/build plain -- docs/man3
	@echo "try: man -M build/docs weft_spin"

install: ## install to DESTDIR and PREFIX (/usr/local)
	@tools/install "$(PREFIX)" "$(DESTDIR)"

clean: ## remove all that was built
	@rm -rf build
