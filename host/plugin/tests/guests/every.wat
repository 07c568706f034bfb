;; Exports all interfaces, and logs its calls. Its descriptor is its sidecar's config.
;;
;; observe logs "initial NAME", "added NAME", "updated NAME", "deleted NAME" or "resync NAME" for each notification, then does what
;; field data.wish of its object says: trap, retry, terminal, or again (retry, but only the first time in this instance).
;; index.values returns data.team; for data.wish "no-index" it traps.
;; reconcile creates the object in data.create, if there is one, then logs "VALUE: NAME" for each key with the index value data.ask.
(module
  (import "pilothouse:controller/cache@0.1.1" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "index-keys" (func $index-keys (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "create" (func $create (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/changes@0.1.1" "[method]batch.after" (func $after (param i32 i32 i32)))
  (import "pilothouse:controller/changes@0.1.1" "[resource-drop]batch" (func $end (param i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.text" (func $text (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 4)

  (data (i32.const 512) "/data/wish")
  (data (i32.const 528) "/data/team")
  (data (i32.const 544) "/data/ask")
  (data (i32.const 560) "/data/create")
  (data (i32.const 576) "team")
  (data (i32.const 592) "not yet")
  ;; Names of the changes, 8 bytes each.
  (data (i32.const 640) "added   updated deleted resync  initial ")
  (data (i32.const 700) ": ")

  ;; Whether this instance has returned a retry for "again" already.
  (global $again (mut i32) (i32.const 0))

  ;; Memory for what the host passes in: a bump allocator that starts again with each call.
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

  ;; describe(config: string) -> result<string, string>: 0 (ok), then the pointer and length of the argument.
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $config))
    (i32.store (i32.const 24) (local.get $length))
    (i32.const 16))

  ;; Logs two texts as one line.
  (func $say (param $first i32) (param $first-len i32) (param $second i32) (param $second-len i32)
    (memory.copy (i32.const 1024) (local.get $first) (local.get $first-len))
    (memory.copy (i32.add (i32.const 1024) (local.get $first-len)) (local.get $second) (local.get $second-len))
    (call $log (i32.const 1) (i32.const 1024) (i32.add (local.get $first-len) (local.get $second-len))
      (i32.const 0) (i32.const 0)))

  ;; Length of a change's name and the space after it.
  (func $word-len (param $change i32) (result i32)
    (if (i32.eqz (local.get $change)) (then (return (i32.const 6)))) ;; "added "
    (if (i32.eq (local.get $change) (i32.const 3)) (then (return (i32.const 7)))) ;; "resync "
    (i32.const 8))

  ;; observe(notifications, batch) -> result<_, failure>
  ;; A notification takes 32 bytes: watch (8), change (4), key (16), initial and final-state-unknown (4 together).
  (func (export "pilothouse:controller/observe@0.1.1#observe")
    (param $list i32) (param $count i32) (param $batch i32) (result i32)
    (local $change i32) (local $position i32) (local $object i32) (local $wish i32) (local $answer i32)
    ;; ok: memory at 48 is zero.
    (local.set $answer (i32.const 48))
    (block $all
      (loop $more
        (br_if $all (i32.ge_u (local.get $position) (local.get $count)))
        (local.set $change (i32.load8_u offset=8 (local.get $list)))
        (if (i32.load8_u offset=28 (local.get $list)) (then (local.set $change (i32.const 4))))
        (call $say
          (i32.add (i32.const 640) (i32.mul (local.get $change) (i32.const 8))) (call $word-len (local.get $change))
          (i32.load offset=20 (local.get $list)) (i32.load offset=24 (local.get $list)))
        (call $after (local.get $batch) (local.get $position) (i32.const 80))
        (if (i32.load8_u (i32.const 80))
          (then
            (local.set $object (i32.load (i32.const 84)))
            (call $text (local.get $object) (i32.const 512) (i32.const 10) (i32.const 96))
            (call $close (local.get $object))
            (if (i32.load8_u (i32.const 96))
              (then
                (local.set $wish (i32.load8_u (i32.load (i32.const 100))))
                (if (i32.eq (local.get $wish) (i32.const 116)) ;; 't': trap or terminal
                  (then
                    (if (i32.eq (i32.load offset=1 (i32.load (i32.const 100))) (i32.const 0x696d7265)) ;; "ermi"
                      (then (local.set $answer (call $failure (i32.const 1))))
                      (else unreachable))))
                (if (i32.eq (local.get $wish) (i32.const 114)) ;; 'r': retry
                  (then (local.set $answer (call $failure (i32.const 0)))))
                (if (i32.eq (local.get $wish) (i32.const 97)) ;; 'a': again
                  (then
                    (if (i32.eqz (global.get $again))
                      (then
                        (global.set $again (i32.const 1))
                        (local.set $answer (call $failure (i32.const 0)))))))))))
        (local.set $list (i32.add (local.get $list) (i32.const 32)))
        (local.set $position (i32.add (local.get $position) (i32.const 1)))
        (br $more)))
    (call $end (local.get $batch))
    (call $reset)
    (local.get $answer))

  ;; The answer err(failure): `tag` 0 is retry, 1 terminal.
  (func $failure (param $tag i32) (result i32)
    (i32.store8 (i32.const 64) (i32.const 1))
    (i32.store8 (i32.const 68) (local.get $tag))
    (i32.store (i32.const 72) (i32.const 592))
    (i32.store (i32.const 76) (i32.const 7))
    (i32.const 64))

  ;; values(index: string, object: object) -> list<string>
  (func (export "pilothouse:controller/index@0.1.1#values")
    (param $index i32) (param $index-len i32) (param $object i32) (result i32)
    (call $text (local.get $object) (i32.const 512) (i32.const 10) (i32.const 80))
    (if (i32.load8_u (i32.const 80))
      (then (if (i32.eq (i32.load8_u (i32.load (i32.const 84))) (i32.const 110)) (then unreachable)))) ;; 'n'
    (call $text (local.get $object) (i32.const 528) (i32.const 10) (i32.const 80))
    (call $close (local.get $object))
    (call $reset)
    ;; A list: where it is, and how many. The text's pointer and length are at 84; none has length 0.
    (i32.store (i32.const 120) (i32.const 84))
    (i32.store (i32.const 124) (i32.load8_u (i32.const 80)))
    (i32.const 120))

  ;; reconcile(request) -> result<outcome, failure>
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (local $object i32) (local $value i32) (local $value-len i32) (local $keys i32) (local $count i32)
    (call $get (local.get $watch) (local.get $watch-len) (local.get $namespace) (local.get $namespace-len)
      (local.get $name) (local.get $name-len) (i32.const 80))
    (if (i32.eqz (i32.load8_u (i32.const 80))) (then (call $reset) (return (i32.const 48))))
    (local.set $object (i32.load (i32.const 84)))
    (call $text (local.get $object) (i32.const 560) (i32.const 12) (i32.const 96))
    (if (i32.load8_u (i32.const 96))
      (then
        (call $create (i32.load (i32.const 100)) (i32.load (i32.const 104)) (i32.const 0) (i32.const 0) (i32.const 256))
        ;; Refused, most likely because it is there already: no handle.
        (if (i32.eqz (i32.load8_u (i32.const 256))) (then (call $close (i32.load (i32.const 260)))))))
    (call $text (local.get $object) (i32.const 544) (i32.const 9) (i32.const 96))
    (call $close (local.get $object))
    (if (i32.load8_u (i32.const 96))
      (then
        (local.set $value (i32.load (i32.const 100)))
        (local.set $value-len (i32.load (i32.const 104)))
        (call $index-keys (local.get $watch) (local.get $watch-len) (i32.const 576) (i32.const 4)
          (local.get $value) (local.get $value-len) (i32.const 96))
        (local.set $keys (i32.load (i32.const 96)))
        (local.set $count (i32.load (i32.const 100)))
        (block $all
          (loop $more
            (br_if $all (i32.eqz (local.get $count)))
            ;; "VALUE: " in front of the name.
            (memory.copy (i32.const 1600) (local.get $value) (local.get $value-len))
            (memory.copy (i32.add (i32.const 1600) (local.get $value-len)) (i32.const 700) (i32.const 2))
            (call $say (i32.const 1600) (i32.add (local.get $value-len) (i32.const 2))
              (i32.load offset=8 (local.get $keys)) (i32.load offset=12 (local.get $keys)))
            (local.set $keys (i32.add (local.get $keys) (i32.const 16)))
            (local.set $count (i32.sub (local.get $count) (i32.const 1)))
            (br $more)))))
    (call $reset)
    (i32.const 48))
)
