# Thin names for what scripts/ does: each target sets up what it needs, on a fresh Debian machine too.
.PHONY: demo test test-all

demo:
	scripts/setup build
	scripts/build build -Dtests=false
	build/attune-demo tests/data/minilm

test:
	scripts/setup build test
	scripts/test

test-all:
	scripts/setup build test
	scripts/test --all
