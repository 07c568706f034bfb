#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER of `cargo xtask fuzz`: the compiler with counters for libFuzzer in this project's own crates. The others,
# wasmtime above all, stay as they are compiled for the tests.
exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing
