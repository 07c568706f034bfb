// The load generator of `cargo xtask testserver-bench`.
module pilothouse.dev/bench/api-load

go 1.26.0
