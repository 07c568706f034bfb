;; Its descriptor is the answer of the import `config`. Each reconcile logs that answer, and so does the start of the module.
(module
  (import "pilothouse:controller/config@0.1.1" "get" (func $config (param i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)

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

  ;; Reads the configuration and logs it at level info.
  (func $say
    (call $config (i32.const 20))
    (call $log (i32.const 1) (i32.load (i32.const 20)) (i32.load (i32.const 24)) (i32.const 0) (i32.const 0)))

  (func (export "_initialize") (call $say))

  ;; describe(config: string) -> result<string, string>: 0 (ok), then pointer and length of the import's answer.
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (call $config (i32.const 20))
    (i32.const 16))

  ;; reconcile(request) -> result<outcome, failure>
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (call $say)
    (global.set $next (i32.const 1024))
    ;; 0 (ok), 0 (done): memory at 48 is zero.
    (i32.const 48))
)
