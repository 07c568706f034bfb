;; A plugin that records the start and the end of each reconcile by creating a Lease, which the test intercepts:
;;
;;   KIND VERSION NAME RESOURCE-VERSION ATTEMPT REASONS
;;
;; KIND is S for a start, E for an end, T for an end by a trap. VERSION is the four digits below, which the test replaces. A
;; deleted object has no resource version. REASONS is R if a requeue is among the reasons, else -.
;;
;; data.wish of the object: "retry" fails until the fourth attempt, "again" requests a requeue in two seconds.
(module
  (import "pilothouse:controller/cache@0.1.1" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "create" (func $create (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.text" (func $text (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (memory (export "memory") 2)

  (data (i32.const 512) "/metadata/resourceVersion")
  (data (i32.const 544) "/data/wish")
  (data (i32.const 560) "again")
  ;; Whether describe (1) or reconcile (2) traps; the test replaces it.
  (data (i32.const 600) "FAULT")
  (data (i32.const 608) "VERSION")
  (data (i32.const 640) "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"record\",\"namespace\":\"default\"},\"spec\":{\"holderIdentity\":\"")
  (data (i32.const 800) "\"}}")

  ;; The descriptor, and the answer of describe: 0 (ok), then pointer and length of the text.
  (data (i32.const 1024) "DESCRIPTOR")
  (data (i32.const 16) "\00\00\00\00\00\04\00\00LENGTH")
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param i32 i32) (result i32)
    (if (i32.eq (i32.load8_u (i32.const 600)) (i32.const 49)) (then unreachable))
    (i32.const 16))

  ;; Memory for what the host passes in, begun anew with each call.
  (global $next (mut i32) (i32.const 16384))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  ;; A record is put together from 4096 on.
  (global $end (mut i32) (i32.const 4096))
  (func $put (param $text i32) (param $length i32)
    (memory.copy (global.get $end) (local.get $text) (local.get $length))
    (global.set $end (i32.add (global.get $end) (local.get $length))))
  (func $put-byte (param $byte i32)
    (i32.store8 (global.get $end) (local.get $byte))
    (global.set $end (i32.add (global.get $end) (i32.const 1))))

  (func $record (param $kind i32) (param $name i32) (param $name-len i32) (param $version i32) (param $version-len i32)
    (param $attempt i32) (param $requeued i32)
    (global.set $end (i32.const 4096))
    (call $put (i32.const 640) (i32.const HEAD))
    (call $put-byte (local.get $kind))
    (call $put-byte (i32.const 32))
    (call $put (i32.const 608) (i32.const 4))
    (call $put-byte (i32.const 32))
    (call $put (local.get $name) (local.get $name-len))
    (call $put-byte (i32.const 32))
    (call $put (local.get $version) (local.get $version-len))
    (call $put-byte (i32.const 32))
    (call $put-byte (i32.add (i32.const 48) (i32.div_u (local.get $attempt) (i32.const 10))))
    (call $put-byte (i32.add (i32.const 48) (i32.rem_u (local.get $attempt) (i32.const 10))))
    (call $put-byte (i32.const 32))
    (call $put-byte (select (i32.const 82) (i32.const 45) (local.get $requeued)))
    (call $put (i32.const 800) (i32.const 3))
    (call $create (i32.const 4096) (i32.sub (global.get $end) (i32.const 4096)) (i32.const 0) (i32.const 0) (i32.const 256))
    ;; Not written: then the test must not take the reconcile for one that was.
    (if (i32.load8_u (i32.const 256)) (then unreachable))
    (call $close (i32.load (i32.const 260))))

  ;; reconcile(request) -> result<outcome, failure>
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (local $object i32) (local $version i32) (local $version-len i32) (local $wish i32) (local $requeued i32)
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $reasons-len)))
        (local.set $reasons-len (i32.sub (local.get $reasons-len) (i32.const 1)))
        ;; 4 is requeue.
        (if (i32.eq (i32.load8_u (i32.add (local.get $reasons) (local.get $reasons-len))) (i32.const 4))
          (then (local.set $requeued (i32.const 1))))
        (br $more)))
    (call $get (local.get $watch) (local.get $watch-len) (local.get $namespace) (local.get $namespace-len)
      (local.get $name) (local.get $name-len) (i32.const 80))
    (if (i32.load8_u (i32.const 80))
      (then
        (local.set $object (i32.load (i32.const 84)))
        (call $text (local.get $object) (i32.const 512) (i32.const 25) (i32.const 96))
        (local.set $version (i32.load (i32.const 100)))
        (local.set $version-len (i32.load (i32.const 104)))
        (call $text (local.get $object) (i32.const 544) (i32.const 10) (i32.const 96))
        ;; Not the empty text, which is anywhere.
        (if (i32.and (i32.load8_u (i32.const 96)) (i32.gt_u (i32.load (i32.const 104)) (i32.const 0)))
          (then (local.set $wish (i32.load8_u (i32.load (i32.const 100))))))
        (call $close (local.get $object))))
    (call $record (i32.const 83) (local.get $name) (local.get $name-len) (local.get $version) (local.get $version-len)
      (local.get $attempt) (local.get $requeued))
    (if (i32.eq (i32.load8_u (i32.const 600)) (i32.const 50))
      (then
        (call $record (i32.const 84) (local.get $name) (local.get $name-len) (local.get $version) (local.get $version-len)
          (local.get $attempt) (local.get $requeued))
        unreachable))
    (call $record (i32.const 69) (local.get $name) (local.get $name-len) (local.get $version) (local.get $version-len)
      (local.get $attempt) (local.get $requeued))
    (global.set $next (i32.const 16384))
    ;; ok(done): memory at 48 is zero. 'r' is retry, 'a' is again.
    (if (i32.and (i32.eq (local.get $wish) (i32.const 114)) (i32.lt_u (local.get $attempt) (i32.const 4)))
      (then
        (i32.store8 (i32.const 64) (i32.const 1))
        (i32.store8 (i32.const 68) (i32.const 0))
        (i32.store (i32.const 72) (i32.const 560))
        (i32.store (i32.const 76) (i32.const 5))
        (return (i32.const 64))))
    (if (i32.eq (local.get $wish) (i32.const 97))
      (then
        (i32.store8 (i32.const 64) (i32.const 0))
        (i32.store8 (i32.const 68) (i32.const 1))
        (i32.store (i32.const 72) (i32.const 2000))
        (return (i32.const 64))))
    (i32.const 48))
)
