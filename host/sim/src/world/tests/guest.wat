;; For each ConfigMap, creates the object in data.first, then the one in data.second. One that exists already is left as it is; any other
;; refusal fails the reconcile, which is retried. data.wish "live" first reads the ConfigMap from the server, "spin" never returns, "trap"
;; traps, "update" only writes the ConfigMap back as it is in the cache, "informed" does nothing if the reason is unknown, "believe" does not
;; create the second object if the first one exists. Timers: "due" creates only when a timer of 45 seconds has passed, "hour" when one of an hour has, "often" also asks for the
;; key again after 10 seconds, even if it was refused, "equal" does so after it has written the ConfigMap back, and "poll" does nothing but ask for the key again after
;; 5 milliseconds. Its descriptor is its sidecar's config.
(module
  (import "pilothouse:controller/cache@0.1.1" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "get"
    (func $get-live (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "create" (func $create (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "update" (func $update (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.text" (func $text (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (memory (export "memory") 4)

  (data (i32.const 512) "/data/first")
  (data (i32.const 528) "/data/second")
  (data (i32.const 544) "/data/wish")
  (data (i32.const 560) "refused")
  (data (i32.const 576) "v1")
  (data (i32.const 592) "ConfigMap")

  ;; Memory for what the host passes in: begins anew with each call.
  (global $next (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  ;; describe(config: string) -> result<string, string>: 0 (ok), then the pointer and length of the argument.
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $config))
    (i32.store (i32.const 24) (local.get $length))
    (i32.const 16))

  ;; Creates the object that the field at this path contains. Returns 0 if it was refused, 2 if it exists.
  (func $create-from (param $object i32) (param $path i32) (param $path-len i32) (result i32)
    (call $text (local.get $object) (local.get $path) (local.get $path-len) (i32.const 96))
    (if (i32.eqz (i32.load8_u (i32.const 96))) (then (return (i32.const 1))))
    (call $create (i32.load (i32.const 100)) (i32.load (i32.const 104)) (i32.const 0) (i32.const 0) (i32.const 256))
    (if (i32.eqz (i32.load8_u (i32.const 256)))
      (then
        (call $close (i32.load (i32.const 260)))
        (return (i32.const 1))))
    ;; 1 is already-exists.
    (i32.shl (i32.eq (i32.load8_u (i32.const 260)) (i32.const 1)) (i32.const 1)))

  ;; Replaces the object by itself. Returns 0 if that was refused.
  (func $write-back (param $object i32) (result i32)
    (call $text (local.get $object) (i32.const 0) (i32.const 0) (i32.const 96))
    (call $update (i32.load (i32.const 100)) (i32.load (i32.const 104)) (i32.const 0) (i32.const 0) (i32.const 256))
    (if (i32.load8_u (i32.const 256)) (then (return (i32.const 0))))
    (call $close (i32.load (i32.const 260)))
    (i32.const 1))

  ;; Returns ok(requeue-after(ms)).
  (func $requeue-after (param $ms i32) (result i32)
    (global.set $next (i32.const 8192))
    (i32.store8 (i32.const 32) (i32.const 0))
    (i32.store8 (i32.const 36) (i32.const 1))
    (i32.store (i32.const 40) (local.get $ms))
    (i32.const 32))

  ;; reconcile(request) -> result<outcome, failure>
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (local $object i32) (local $wish i32) (local $ok i32)
    (call $get (local.get $watch) (local.get $watch-len) (local.get $namespace) (local.get $namespace-len)
      (local.get $name) (local.get $name-len) (i32.const 80))
    (if (i32.eqz (i32.load8_u (i32.const 80))) (then (global.set $next (i32.const 8192)) (return (i32.const 48))))
    (local.set $object (i32.load (i32.const 84)))
    (call $text (local.get $object) (i32.const 544) (i32.const 10) (i32.const 96))
    (if (i32.and (i32.load8_u (i32.const 96)) (i32.gt_u (i32.load (i32.const 104)) (i32.const 0)))
      (then (local.set $wish (i32.load8_u (i32.load (i32.const 100))))))
    (if (i32.eq (local.get $wish) (i32.const 108))
      (then
        (call $get-live (i32.const 576) (i32.const 2) (i32.const 592) (i32.const 9)
          (local.get $namespace) (local.get $namespace-len) (local.get $name) (local.get $name-len)
          (i32.const 0) (i32.const 0) (i32.const 256))
        (if (i32.eqz (i32.load8_u (i32.const 256))) (then (call $close (i32.load (i32.const 260)))))))
    (if (i32.eq (local.get $wish) (i32.const 115)) (then (loop $for-ever (br $for-ever))))
    (if (i32.eq (local.get $wish) (i32.const 116)) (then unreachable))
    ;; 7 is other.
    (if (i32.and (i32.eq (local.get $wish) (i32.const 105)) (i32.eq (i32.load8_u (local.get $reasons)) (i32.const 7)))
      (then
        (call $close (local.get $object))
        (global.set $next (i32.const 8192))
        (return (i32.const 48))))
    ;; 4 is requeue.
    (if (i32.and (i32.eq (local.get $wish) (i32.const 100)) (i32.ne (i32.load8_u (local.get $reasons)) (i32.const 4)))
      (then
        (call $close (local.get $object))
        (return (call $requeue-after (i32.const 45000)))))
    (if (i32.and (i32.eq (local.get $wish) (i32.const 104)) (i32.ne (i32.load8_u (local.get $reasons)) (i32.const 4)))
      (then
        (call $close (local.get $object))
        (return (call $requeue-after (i32.const 3600000)))))
    (if (i32.eq (local.get $wish) (i32.const 112))
      (then
        (call $close (local.get $object))
        (return (call $requeue-after (i32.const 5)))))
    (if (i32.or (i32.eq (local.get $wish) (i32.const 117)) (i32.eq (local.get $wish) (i32.const 101)))
      (then (local.set $ok (call $write-back (local.get $object))))
      (else
        (local.set $ok (call $create-from (local.get $object) (i32.const 512) (i32.const 11)))
        (if (i32.eqz (i32.and (i32.eq (local.get $wish) (i32.const 98)) (i32.eq (local.get $ok) (i32.const 2))))
          (then
            (if (local.get $ok)
              (then (local.set $ok (call $create-from (local.get $object) (i32.const 528) (i32.const 12)))))))))
    (call $close (local.get $object))
    (global.set $next (i32.const 8192))
    (if (i32.or (i32.eq (local.get $wish) (i32.const 111)) (i32.eq (local.get $wish) (i32.const 101)))
      (then (return (call $requeue-after (i32.const 10000)))))
    (if (local.get $ok) (then (return (i32.const 48))))
    ;; err(retry("refused"))
    (i32.store8 (i32.const 64) (i32.const 1))
    (i32.store8 (i32.const 68) (i32.const 0))
    (i32.store (i32.const 72) (i32.const 560))
    (i32.store (i32.const 76) (i32.const 7))
    (i32.const 64))
)
