#!/bin/sh
# The RUSTC_WORKSPACE_WRAPPER of `cargo xtask fuzz`: runs the compiler with coverage counters for libFuzzer. Only this project's crates are
# instrumented. Dependencies, above all wasmtime, are those that were compiled for the tests.
exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing
