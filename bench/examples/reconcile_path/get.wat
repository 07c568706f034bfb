;; Its descriptor is its sidecar's config. Each reconcile reads its object from the cache, as reconciles do, and is done.
(module
  (import "pilothouse:controller/cache@0.1.1" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (memory (export "memory") 2)

  ;; describe(config: string) -> result<string, string>: 0 (ok), then the pointer and length of the argument.
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $config))
    (i32.store (i32.const 24) (local.get $length))
    (i32.const 16))

  ;; Memory for what the host passes in: a bump allocator that starts again with each reconcile.
  (global $next (mut i32) (i32.const 1024))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  ;; reconcile(request) -> result<outcome, failure>: 0 (ok), 0 (done); memory at 48 is zero. The answer of `get` is at 80: whether there is an object,
  ;; and its handle.
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (call $get (local.get $watch) (local.get $watch-len) (local.get $namespace) (local.get $namespace-len)
      (local.get $name) (local.get $name-len) (i32.const 80))
    (if (i32.load8_u (i32.const 80)) (then (call $close (i32.load (i32.const 84)))))
    (global.set $next (i32.const 1024))
    (i32.const 48))
)
