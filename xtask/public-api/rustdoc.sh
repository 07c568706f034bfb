#!/bin/sh
# The RUSTDOC of `cargo xtask api`: lets a stable rustdoc write JSON. If the variable were set for cargo, build scripts that read it would run
# again, and everything that depends on them would be compiled again.
RUSTC_BOOTSTRAP=1
export RUSTC_BOOTSTRAP
exec rustdoc "$@"
