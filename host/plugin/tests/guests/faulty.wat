;; Has one fault at a time: before it assembles this text, a test replaces one of $in-describe, $in-reconcile, $in-observe and $in-index by
;; the name of a function below, and the others by $nothing. The descriptor is the sidecar's config.
(module
  (import "pilothouse:controller/cache@0.1.1" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "list" (func $list (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "by-index" (func $by-index (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "index-keys" (func $index-keys (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "index-values" (func $index-values (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "get"
    (func $client-get (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/changes@0.1.1" "[resource-drop]batch" (func $end (param i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.json" (func $json (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/metrics@0.1.1" "gauge" (func $gauge (param i32 i32 i32 i32 f64)))
  (import "pilothouse:controller/events@0.1.1" "publish" (func $publish (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "create" (func $create (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.field" (func $field (param i32 i32 i32 i32)))
  (import "pilothouse:controller/queue@0.1.1" "add" (func $add (param i32 i32 i32 i32 i32 i32)))
  (import "wasi:random/random@0.2.6" "get-random-bytes" (func $random (param i64 i32)))
  (memory (export "memory") 4)
  (table $table 1 funcref)

  (data (i32.const 512) "v1\00\00ConfigMap")
  (data (i32.const 544) "a line of a flood")
  (data (i32.const 576) "many")
  (data (i32.const 592) "reason")
  ;; One label: its key is "many", its value the 8 bytes at 640.
  (data (i32.const 608) "\40\02\00\00\04\00\00\00\80\02\00\00\08\00\00\00")
  (data (i32.const 640) "aaaaaaaa")
  (data (i32.const 656) "\ff\fe\fd")
  (data (i32.const 672) "wanted=never")

  ;; Memory for what the host passes in: a bump allocator that starts again with each call and each iteration of a loop. The strings of the
  ;; request and the configuration lie below `kept`.
  (global $next (mut i32) (i32.const 8192))
  (global $kept (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  ;; The current request.
  (global $watch (mut i32) (i32.const 0)) (global $watch-len (mut i32) (i32.const 0))
  (global $namespace (mut i32) (i32.const 0)) (global $namespace-len (mut i32) (i32.const 0))
  (global $name (mut i32) (i32.const 0)) (global $name-len (mut i32) (i32.const 0))

  (func $nothing)

  (func $traps unreachable)

  (func $loops (loop $forever (br $forever)))

  (func $deeper (param $depth i32) (result i32)
    (i32.add (call $deeper (i32.add (local.get $depth) (i32.const 1))) (local.get $depth)))
  (func $recurses (drop (call $deeper (i32.const 0))))

  (func $grows-memory (loop $forever (drop (memory.grow (i32.const 16))) (br $forever)))

  (func $grows-table (loop $forever (drop (table.grow $table (ref.null func) (i32.const 1000))) (br $forever)))

  ;; The object of the request; a trap when it is gone.
  (func $open (result i32)
    (global.set $next (global.get $kept))
    (call $get (global.get $watch) (global.get $watch-len) (global.get $namespace) (global.get $namespace-len)
      (global.get $name) (global.get $name-len) (i32.const 80))
    (if (i32.eqz (i32.load8_u (i32.const 80))) (then unreachable))
    (i32.load (i32.const 84)))

  (func $leaks-handles (loop $forever (drop (call $open)) (br $forever)))

  ;; A log message of 100 MB; the sidecar allows enough linear memory for it.
  (func $says-too-much
    (drop (memory.grow (i32.const 1600)))
    (call $log (i32.const 1) (i32.const 65536) (i32.const 100000000) (i32.const 0) (i32.const 0)))

  (func $asks-too-much (call $random (i64.const 100000000) (i32.const 96)))

  (func $reads-too-much (call $json (call $open) (i32.const 96)))

  (func $speaks-no-text (call $log (i32.const 1) (i32.const 656) (i32.const 3) (i32.const 0) (i32.const 0)))

  (func $floods-log
    (local $count i32)
    (local.set $count (i32.const 20000))
    (loop $again
      (call $log (i32.const 1) (i32.const 544) (i32.const 17) (i32.const 0) (i32.const 0))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $again (local.get $count))))

  ;; A gauge with ever new label values: the eight letters are a counter.
  (func $floods-metrics
    (local $count i32)
    (local.set $count (i32.const 3000))
    (loop $again
      (i32.store (i32.const 640)
        (i32.add (i32.const 0x61616161)
          (i32.add (i32.and (local.get $count) (i32.const 0xf))
            (i32.add (i32.shl (i32.and (local.get $count) (i32.const 0xf0)) (i32.const 4))
              (i32.shl (i32.and (local.get $count) (i32.const 0xf00)) (i32.const 8))))))
      (call $gauge (i32.const 576) (i32.const 4) (i32.const 608) (i32.const 1) (f64.const 1))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $again (local.get $count))))

  (func $floods-events
    (local $object i32) (local $count i32)
    (local.set $object (call $open))
    (local.set $count (i32.const 3000))
    (loop $again
      (call $publish (local.get $object) (i32.const 1) (i32.const 592) (i32.const 6) (i32.const 592) (i32.const 6)
        (i32.const 544) (i32.const 17))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $again (local.get $count)))
    (call $close (local.get $object)))

  ;; Lists all objects again and again, and closes the handles.
  (func $storms-cache
    (local $item i32) (local $count i32)
    (loop $forever
      (global.set $next (global.get $kept))
      (call $list (global.get $watch) (global.get $watch-len)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 96))
      (local.set $item (i32.load (i32.const 96)))
      (local.set $count (i32.load (i32.const 100)))
      (block $closed
        (loop $again
          (br_if $closed (i32.eqz (local.get $count)))
          (call $close (i32.load (local.get $item)))
          (local.set $item (i32.add (local.get $item) (i32.const 4)))
          (local.set $count (i32.sub (local.get $count) (i32.const 1)))
          (br $again)))
      (br $forever)))

  ;; Gets the request's object from the server again and again.
  (func $storms-client
    (loop $forever
      (global.set $next (global.get $kept))
      (call $client-get (i32.const 512) (i32.const 2) (i32.const 516) (i32.const 9)
        (global.get $namespace) (global.get $namespace-len) (global.get $name) (global.get $name-len)
        (i32.const 0) (i32.const 0) (i32.const 256))
      (if (i32.eqz (i32.load8_u (i32.const 256))) (then (call $close (i32.load (i32.const 260)))))
      (br $forever)))

  ;; Gets the request's object from the server 20 times.
  (func $visits-client
    (local $count i32)
    (local.set $count (i32.const 20))
    (loop $again
      (global.set $next (global.get $kept))
      (call $client-get (i32.const 512) (i32.const 2) (i32.const 516) (i32.const 9)
        (global.get $namespace) (global.get $namespace-len) (global.get $name) (global.get $name-len)
        (i32.const 0) (i32.const 0) (i32.const 256))
      (if (i32.eqz (i32.load8_u (i32.const 256))) (then (call $close (i32.load (i32.const 260)))))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $again (local.get $count))))

  ;; Creates an object from a manifest of 4 MB, which the host refuses. Logs the refusal, then traps.
  (func $writes-too-much
    (drop (memory.grow (i32.const 100)))
    (memory.fill (i32.const 262144) (i32.const 32) (i32.const 4000000))
    (call $create (i32.const 262144) (i32.const 4000000) (i32.const 0) (i32.const 0) (i32.const 256))
    ;; err(other(status)): result tag 1 at 256, variant tag at 260, code at 264, reason at 268, message at 276.
    (if (i32.ne (i32.load16_u (i32.const 264)) (i32.const 413)) (then unreachable))
    (call $log (i32.const 3) (i32.load (i32.const 276)) (i32.load (i32.const 280)) (i32.const 0) (i32.const 0))
    unreachable)

  ;; Queues keys with ever new names of eight letters, which are the digits of a counter.
  (func $queues-without-end
    (local $count i32) (local $digit i32)
    (loop $forever
      (local.set $digit (i32.const 0))
      (loop $digits
        (i32.store8 (i32.add (i32.const 640) (local.get $digit))
          (i32.add (i32.const 97)
            (i32.and (i32.shr_u (local.get $count) (i32.shl (local.get $digit) (i32.const 2))) (i32.const 15))))
        (local.set $digit (i32.add (local.get $digit) (i32.const 1)))
        (br_if $digits (i32.lt_u (local.get $digit) (i32.const 8))))
      (call $add (global.get $watch) (global.get $watch-len) (global.get $namespace) (global.get $namespace-len)
        (i32.const 640) (i32.const 8))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br $forever)))

  ;; Queues a key with a name of 100,000 bytes.
  (func $queues-at-length
    (memory.fill (i32.const 65536) (i32.const 97) (i32.const 100000))
    (call $add (global.get $watch) (global.get $watch-len) (i32.const 0) (i32.const 0)
      (i32.const 65536) (i32.const 100000)))

  ;; Gets the request's object from the server again and again, and keeps the handles.
  (func $keeps-from-server
    (loop $forever
      (global.set $next (global.get $kept))
      (call $client-get (i32.const 512) (i32.const 2) (i32.const 516) (i32.const 9)
        (global.get $namespace) (global.get $namespace-len) (global.get $name) (global.get $name-len)
        (i32.const 0) (i32.const 0) (i32.const 256))
      (br $forever)))

  ;; Opens a thousand handles on the object of the request, and keeps them when the call ends.
  (func $keeps-from-cache
    (local $count i32)
    (local.set $count (i32.const 1000))
    (loop $again
      (drop (call $open))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $again (local.get $count))))

  (func $selects (param $selector i32) (param $length i32)
    (call $list (global.get $watch) (global.get $watch-len)
      (i32.const 0) (i32.const 0) (local.get $selector) (local.get $length)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 96)))

  ;; Lists with a label selector of 100,000 bytes.
  (func $selects-at-length
    (memory.fill (i32.const 65536) (i32.const 97) (i32.const 100000))
    (call $selects (i32.const 65536) (i32.const 100000)))

  ;; Lists with a label that no object has.
  (func $selects-nothing (call $selects (i32.const 672) (i32.const 12)))

  ;; These look for an index value that no object has.
  (func $searches-objects
    (call $by-index (global.get $watch) (global.get $watch-len) (i32.const 576) (i32.const 4)
      (i32.const 576) (i32.const 4) (i32.const 96)))
  (func $searches-keys
    (call $index-keys (global.get $watch) (global.get $watch-len) (i32.const 576) (i32.const 4)
      (i32.const 576) (i32.const 4) (i32.const 96)))
  (func $searches-values
    (call $index-values (global.get $watch) (global.get $watch-len) (i32.const 576) (i32.const 4) (i32.const 96)))

  ;; Reads a field with a pointer of 100,000 bytes.
  (func $points-at-length
    (memory.fill (i32.const 65536) (i32.const 47) (i32.const 100000))
    (call $field (call $open) (i32.const 65536) (i32.const 100000) (i32.const 96)))

  ;; Prepares one index value of 100,000 bytes for `values`.
  (global $values-len (mut i32) (i32.const 0))
  (func $computes-at-length
    (memory.fill (i32.const 65536) (i32.const 97) (i32.const 100000))
    (i32.store (i32.const 128) (i32.const 65536))
    (i32.store (i32.const 132) (i32.const 100000))
    (global.set $values-len (i32.const 1)))

  ;; describe(config: string) -> result<string, string>: 0 (ok), then the pointer and length of the argument.
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (call $in-describe)
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $config))
    (i32.store (i32.const 24) (local.get $length))
    (i32.const 16))

  ;; reconcile(request) -> result<outcome, failure>
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $at i32) (param $at-len i32) (param $ns i32) (param $ns-len i32) (param $of i32) (param $of-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (global.set $watch (local.get $at)) (global.set $watch-len (local.get $at-len))
    (global.set $namespace (local.get $ns)) (global.set $namespace-len (local.get $ns-len))
    (global.set $name (local.get $of)) (global.set $name-len (local.get $of-len))
    (global.set $kept (global.get $next))
    (call $in-reconcile)
    (global.set $next (i32.const 8192))
    (i32.const 48))

  ;; observe(notifications, batch) -> result<_, failure>
  (func (export "pilothouse:controller/observe@0.1.1#observe")
    (param $list i32) (param $count i32) (param $batch i32) (result i32)
    (call $in-observe)
    (call $end (local.get $batch))
    (global.set $next (i32.const 8192))
    (i32.const 48))

  ;; values(index: string, object: object) -> list<string>: none, or the one that $computes-at-length prepared.
  (func (export "pilothouse:controller/index@0.1.1#values")
    (param $index i32) (param $index-len i32) (param $object i32) (result i32)
    (call $in-index)
    (call $close (local.get $object))
    (global.set $next (i32.const 8192))
    (i32.store (i32.const 120) (i32.const 128))
    (i32.store (i32.const 124) (global.get $values-len))
    (i32.const 120))
)
