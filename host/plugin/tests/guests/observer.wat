;; Logs the name of each object that it observes, and traps for one named "poison".
(module
  (import "pilothouse:controller/changes@0.1.1" "[method]batch.after" (func $after (param i32 i32 i32)))
  (import "pilothouse:controller/changes@0.1.1" "[method]batch.after-field"
    (func $after-field (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/changes@0.1.1" "[resource-drop]batch" (func $end (param i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.text"
    (func $text (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)

  ;; The descriptor, and the answer of describe: 0 (ok), then pointer and length of the text.
  (data (i32.const 1024) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"observer\",\"version\":\"1.0.0\",\"watches\":[{\"name\":\"configmaps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"trigger\":\"self\"}]}")
  (data (i32.const 16) "\00\00\00\00\00\04\00\00\b4\00\00\00")

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

  ;; observe(notifications, batch) -> result<_, failure>
  ;; A notification takes 32 bytes: watch (8), change (4), key (16), initial and final-state-unknown (4 together).
  (func (export "pilothouse:controller/observe@0.1.1#observe")
    (param $list i32) (param $count i32) (param $batch i32) (result i32)
    (local $position i32)
    (global.set $next (i32.const 16384))
    (block $all
      (loop $again
        (br_if $all (i32.ge_u (local.get $position) (local.get $count)))
        ;; The name through an object's handle.
        (call $after (local.get $batch) (local.get $position) (i32.const 80))
        (if (i32.load8_u (i32.const 80))
          (then
            (call $text (i32.load (i32.const 84)) (i32.const 512) (i32.const 14) (i32.const 96))
            (call $close (i32.load (i32.const 84)))
            (call $log (i32.const 1) (i32.load (i32.const 100)) (i32.load (i32.const 104)) (i32.const 0) (i32.const 0))
            ;; "pois…"
            (if (i32.eq (i32.load (i32.load (i32.const 100))) (i32.const 0x73696f70)) (then unreachable))
            ;; The name as JSON, without a handle.
            (call $after-field (local.get $batch) (local.get $position) (i32.const 512) (i32.const 14) (i32.const 96))
            (call $log (i32.const 0) (i32.load (i32.const 100)) (i32.load (i32.const 104)) (i32.const 0) (i32.const 0)))
          (else
            ;; Deleted: only the key has the name.
            (call $log (i32.const 2) (i32.load offset=20 (local.get $list)) (i32.load offset=24 (local.get $list))
              (i32.const 0) (i32.const 0))))
        (local.set $list (i32.add (local.get $list) (i32.const 32)))
        (local.set $position (i32.add (local.get $position) (i32.const 1)))
        (br $again)))
    (call $end (local.get $batch))
    (call $reset)
    (i32.const 48))
)
