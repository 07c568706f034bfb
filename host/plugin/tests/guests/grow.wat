;; Grows its memory by a page at a time, without end: the memory limit stops it.
(module
  (memory (export "memory") 1)

  ;; The descriptor, and the answer of describe: 0 (ok), then pointer and length of the text.
  (data (i32.const 1024) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"grow\",\"version\":\"1.0.0\",\"watches\":[{\"name\":\"configmaps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"trigger\":\"self\"}]}")
  (data (i32.const 16) "\00\00\00\00\00\04\00\00\b0\00\00\00")

  ;; describe(config: string) -> result<string, string>
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param i32 i32) (result i32)
    (i32.const 16))

  ;; Memory for what the host passes in: a bump allocator that starts again with each call (see `reset`).
  (global $next (mut i32) (i32.const 8192))
  (func $reset (global.set $next (i32.const 8192)))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  ;; reconcile(request) -> result<outcome, failure>
  (func $reconcile (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (loop $forever
      (drop (memory.grow (i32.const 1)))
      (br $forever))
    unreachable)
)
