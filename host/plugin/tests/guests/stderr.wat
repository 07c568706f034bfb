;; Uses WASI preview 1 like a language runtime: writes to standard output and error, and checks that clocks and randomness work and that
;; there are no environment variables and no files. Then, if `attempt` is 0 it traps, if it is 1 it exits, else it is done.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  ;; The adapter for preview 1 allocates 64 KiB from cabi_realloc and keeps them: so there is more memory, and it is never reset.
  (memory (export "memory") 4)

  ;; The descriptor, and the answer of describe: 0 (ok), then pointer and length of the text.
  (data (i32.const 1024) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"stderr\",\"version\":\"1.0.0\",\"watches\":[{\"name\":\"configmaps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"trigger\":\"self\"}]}")
  (data (i32.const 16) "\00\00\00\00\00\04\00\00\b2\00\00\00")

  ;; describe(config: string) -> result<string, string>
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param i32 i32) (result i32)
    (i32.const 16))

  ;; Memory for what the host passes in: a bump allocator that never frees.
  (global $next (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  (data (i32.const 512) "out 1\nout 2\n")
  (data (i32.const 560) "thread panicked at src/lib.rs:7:5:\nno such luck")
  ;; Where the text is and how long: 12 bytes for standard output, 47 for standard error, which ends without a line end.
  (data (i32.const 640) "\00\02\00\00\0c\00\00\00")
  (data (i32.const 648) "\30\02\00\00\2f\00\00\00")

  ;; reconcile(request) -> result<outcome, failure>
  (func $reconcile (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (drop (call $fd_write (i32.const 1) (i32.const 640) (i32.const 1) (i32.const 700)))
    (drop (call $fd_write (i32.const 2) (i32.const 648) (i32.const 1) (i32.const 700)))
    ;; A wall clock at the epoch or an empty random buffer is a bug of the host.
    (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 704)))
    (if (i64.eqz (i64.load (i32.const 704))) (then (return (call $failure (i32.const 704)))))
    (drop (call $random_get (i32.const 712) (i32.const 8)))
    (if (i64.eqz (i64.load (i32.const 712))) (then (return (call $failure (i32.const 712)))))
    (drop (call $environ_sizes_get (i32.const 720) (i32.const 724)))
    (if (i32.load (i32.const 720)) (then (return (call $failure (i32.const 720)))))
    ;; No preopened directory: the first descriptor after the standard streams is bad (8).
    (if (i32.ne (call $fd_prestat_get (i32.const 3) (i32.const 728)) (i32.const 8))
      (then (return (call $failure (i32.const 728)))))
    (if (i32.eqz (local.get $attempt)) (then unreachable))
    (if (i32.eq (local.get $attempt) (i32.const 1)) (then (call $proc_exit (i32.const 3))))
    (i32.const 48))

  ;; A retry with an empty message.
  (func $failure (param $address i32) (result i32)
    (i32.store8 (i32.const 64) (i32.const 1))
    (i32.const 64))
)
