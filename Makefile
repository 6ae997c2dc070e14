# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything behind these targets is in xtask; set-up is in bootstrap.
export PREFIX ?= /usr/local
export DESTDIR ?=
export QLINUX_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/qlinux
export CARGO_HOME = $(QLINUX_CACHE)/cargo
xtask = ./bootstrap && cargo run --quiet --locked --package xtask --

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18
demo: ## a film against ten busy programs, stock kernel and QLinux (about 5 minutes)
	@$(xtask) qlinux lab demo
test: ## all tests, here and in the guest; FILTER=part of a name
	@$(xtask) test $(if $(FILTER),'$(FILTER)')
test-long: ## those that take long too, and storms of full length (hours)
	@$(xtask) test --long $(if $(FILTER),'$(FILTER)')
lint: ## formatting, lints and the rules of the repository
	@$(xtask) lint
fmt: ## format Rust and C
	@$(xtask) fmt
build: ## programs and libraries, below target/release
	@$(xtask) build
guest: ## what vm/run boots: the image, and this build laid over it
	@$(xtask) stage
lab: ## list the experiments; run one with: make lab RUN=name
	@$(xtask) qlinux lab $(if $(RUN),run $(RUN),list)
install: ## programs, library, header, manuals; PREFIX=/usr/local DESTDIR=
	@$(xtask) install
clean: ## remove what was built, keep what was downloaded
	rm -rf target
.PHONY: help demo test test-long lint fmt build guest lab install clean
