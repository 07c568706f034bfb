;; Exports index beside reconcile. The values of the index "names" are the name (twice) and the kind; any other index calls the cache, which
;; traps.
(module
  (import "pilothouse:controller/objects@0.1.1" "[method]object.text"
    (func $text (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (import "pilothouse:controller/cache@0.1.1" "has-synced" (func $has-synced (param i32 i32) (result i32)))
  (memory (export "memory") 1)

  ;; The descriptor, and the answer of describe: 0 (ok), then pointer and length of the text.
  (data (i32.const 1024) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"index\",\"version\":\"1.0.0\",\"watches\":[{\"name\":\"configmaps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"trigger\":\"self\"}]}")
  (data (i32.const 16) "\00\00\00\00\00\04\00\00\b1\00\00\00")

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

  (data (i32.const 512) "/metadata/name")
  (data (i32.const 544) "/kind")

  ;; reconcile(request) -> result<outcome, failure>
  (func $reconcile (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (call $reset)
    (i32.const 48))

  ;; values(index: string, object: object) -> list<string>
  (func (export "pilothouse:controller/index@0.1.1#values")
    (param $index i32) (param $index-len i32) (param $object i32) (result i32)
    (if (i32.ne (local.get $index-len) (i32.const 5)) ;; "names"
      (then (drop (call $has-synced (local.get $index) (local.get $index-len)))))
    (call $text (local.get $object) (i32.const 512) (i32.const 14) (i32.const 80))
    (i64.store (i32.const 128) (i64.load (i32.const 84)))
    (i64.store (i32.const 136) (i64.load (i32.const 84)))
    (call $text (local.get $object) (i32.const 544) (i32.const 5) (i32.const 80))
    (i64.store (i32.const 144) (i64.load (i32.const 84)))
    (call $close (local.get $object))
    (call $reset)
    ;; A list: where it is, and how many.
    (i32.store (i32.const 96) (i32.const 128))
    (i32.store (i32.const 100) (i32.const 3))
    (i32.const 96))
)
