;; Logs the time of its two clocks, in seconds with ten digits: "wall 1767225600", "mono 0000000042".
(module
  (import "wasi:clocks/wall-clock@0.2.6" "now" (func $wall (param i32)))
  (import "wasi:clocks/monotonic-clock@0.2.6" "now" (func $mono (result i64)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)

  (data (i32.const 512) "wall ")
  (data (i32.const 544) "mono ")

  (global $next (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  ;; Logs a name of five letters, followed by a number.
  (func $say (param $what i32) (param $number i64)
    (local $digit i32)
    (local.set $digit (i32.add (local.get $what) (i32.const 14)))
    (loop $more
      (i32.store8 (local.get $digit) (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $number) (i64.const 10)))))
      (local.set $number (i64.div_u (local.get $number) (i64.const 10)))
      (local.set $digit (i32.sub (local.get $digit) (i32.const 1)))
      (br_if $more (i32.ge_u (local.get $digit) (i32.add (local.get $what) (i32.const 5)))))
    (call $log (i32.const 1) (local.get $what) (i32.const 15) (i32.const 0) (i32.const 0)))

  ;; Describes itself by its sidecar's config.
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $config))
    (i32.store (i32.const 24) (local.get $length))
    (i32.const 16))

  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $wall (i32.const 80))
    (call $say (i32.const 512) (i64.load (i32.const 80)))
    (call $say (i32.const 544) (i64.div_u (call $mono) (i64.const 1000000000)))
    (i32.const 48))
)
