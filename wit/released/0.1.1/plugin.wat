;; A plugin of this release, frozen with it: every later host must go on running it. It watches the ConfigMaps labelled `test=released`, and
;; logs the resource version of each that it reconciles. It reads it by `object.texts`, which 0.1.0 does not have.
(module
  (import "pilothouse:controller/cache@0.1.1" "get"
    (func $cache-get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.texts"
    (func $texts (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object"
    (func $drop-object (param i32)))
  (import "pilothouse:controller/log@0.1.1" "log"
    (func $log (param i32 i32 i32 i32 i32)))

  (memory (export "memory") 2)
  (data (i32.const 256) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"released\",\"version\":\"0.1.0\",\"watches\":[{\"name\":\"maps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"labelSelector\":\"test=released\",\"trigger\":\"self\"}]}")
  (global $descriptor-length i32 (i32.const 206))

  ;; A list of one pointer at 120: its address and length.
  (data (i32.const 80) "/metadata/resourceVersion")
  (data (i32.const 120) "\50\00\00\00\19\00\00\00")

  ;; describe(config) -> result<string, string>
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param i32 i32) (result i32)
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (i32.const 256))
    (i32.store (i32.const 24) (global.get $descriptor-length))
    (i32.const 16))

  ;; What the host passes in lies above 1024; nothing is kept from one call to the next.
  (global $next (mut i32) (i32.const 1024))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  ;; reconcile(request) -> result<outcome, failure>
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (local $object i32) (local $text i32)
    ;; option<object> at 64: whether there is one, and its handle.
    (call $cache-get
      (local.get $watch) (local.get $watch-len)
      (local.get $namespace) (local.get $namespace-len) (local.get $name) (local.get $name-len)
      (i32.const 64))
    (if (i32.load8_u (i32.const 64))
      (then
        (local.set $object (i32.load (i32.const 68)))
        ;; A list of one option<string> at 72: its address and length. The option: a tag, then address and length of the text.
        (call $texts (local.get $object) (i32.const 120) (i32.const 1) (i32.const 72))
        (local.set $text (i32.load (i32.const 72)))
        (if (i32.load8_u (local.get $text))
          (then
            ;; Level 1 is info; no fields.
            (call $log (i32.const 1) (i32.load offset=4 (local.get $text)) (i32.load offset=8 (local.get $text))
              (i32.const 0) (i32.const 0))))
        (call $drop-object (local.get $object))))
    (global.set $next (i32.const 1024))
    ;; ok(done): memory at 48 is zero.
    (i32.const 48))
)
