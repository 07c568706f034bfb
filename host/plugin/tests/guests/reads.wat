;; Calls one of the imports whose string arguments the host reads in place, and logs its answer.
;;
;; The lowest byte of the request's `attempt` chooses the import: 0 cache.get, 1 object.field, 2 object.text, 3 object.fields, 4
;; object.texts. The next byte chooses the string argument (the watch of cache.get, else the pointer): 0 the request's watch, 1 bytes that
;; are not UTF-8, 2 an address beyond the end of memory. object.fields and object.texts take the keys and values of the request's `extra`
;; instead, unless that is empty. `describe` calls cache.get when the config is "get".
(module
  (import "pilothouse:controller/cache@0.1.1" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.field" (func $field (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.text" (func $text (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.fields" (func $fields (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.texts" (func $texts (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 2)

  (data (i32.const 512) "configmaps")
  (data (i32.const 528) "none")
  (data (i32.const 536) "some")
  (data (i32.const 544) "\ff\fe\fd")

  ;; Memory for what the host passes in: a bump allocator that starts again after each call.
  (global $next (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  ;; The answer of describe: 0 (ok), then pointer and length of the text, here of the configuration.
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (if (i32.eq (local.get $length) (i32.const 3))
      (then
        (call $get (i32.const 512) (i32.const 10) (i32.const 0) (i32.const 0) (i32.const 512) (i32.const 10) (i32.const 80))))
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $config))
    (i32.store (i32.const 24) (local.get $length))
    (i32.const 16))

  ;; Logs the option<string> at an address: a tag, then address and length of the text.
  (func $log-option (param $option i32)
    (if (i32.load8_u (local.get $option))
      (then
        (call $log (i32.const 1) (i32.load offset=4 (local.get $option)) (i32.load offset=8 (local.get $option))
          (i32.const 0) (i32.const 0)))
      (else (call $log (i32.const 1) (i32.const 528) (i32.const 4) (i32.const 0) (i32.const 0)))))

  ;; Logs each element of the list<option<string>> whose address and length are at 96.
  (func $log-list
    (local $item i32) (local $count i32)
    (local.set $item (i32.load (i32.const 96)))
    (local.set $count (i32.load (i32.const 100)))
    (block $done
      (loop $more
        (br_if $done (i32.eqz (local.get $count)))
        (call $log-option (local.get $item))
        (local.set $item (i32.add (local.get $item) (i32.const 12)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $more))))

  ;; reconcile(request) -> result<outcome, failure>: 0 (ok), 0 (done); memory at 48 is zero.
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (local $import i32) (local $argument i32) (local $object i32)
    (local.set $import (i32.and (local.get $attempt) (i32.const 0xff)))
    (local.set $argument (i32.shr_u (local.get $attempt) (i32.const 8)))
    (if (i32.eq (local.get $argument) (i32.const 1))
      (then (local.set $watch (i32.const 544)) (local.set $watch-len (i32.const 3))))
    (if (i32.eq (local.get $argument) (i32.const 2))
      (then (local.set $watch (i32.const 0x7ffffff0)) (local.set $watch-len (i32.const 100))))

    (if (i32.eqz (local.get $import))
      (then
        (call $get (local.get $watch) (local.get $watch-len) (local.get $namespace) (local.get $namespace-len)
          (local.get $name) (local.get $name-len) (i32.const 80))
        (if (i32.load8_u (i32.const 80))
          (then
            (call $log (i32.const 1) (i32.const 536) (i32.const 4) (i32.const 0) (i32.const 0))
            (call $close (i32.load (i32.const 84))))
          (else (call $log (i32.const 1) (i32.const 528) (i32.const 4) (i32.const 0) (i32.const 0))))
        (global.set $next (i32.const 8192))
        (return (i32.const 48))))

    (call $get (i32.const 512) (i32.const 10) (local.get $namespace) (local.get $namespace-len)
      (local.get $name) (local.get $name-len) (i32.const 80))
    (local.set $object (i32.load (i32.const 84)))
    ;; The list of pointers: the strings of `extra`, two per pair, or else one, whose address and length are at 112.
    (local.set $extra-len (i32.mul (local.get $extra-len) (i32.const 2)))
    (if (i32.eqz (local.get $extra-len))
      (then
        (i32.store (i32.const 112) (local.get $watch))
        (i32.store (i32.const 116) (local.get $watch-len))
        (local.set $extra (i32.const 112))
        (local.set $extra-len (i32.const 1))))
    (if (i32.eq (local.get $import) (i32.const 1))
      (then
        (call $field (local.get $object) (local.get $watch) (local.get $watch-len) (i32.const 96))
        (call $log-option (i32.const 96))))
    (if (i32.eq (local.get $import) (i32.const 2))
      (then
        (call $text (local.get $object) (local.get $watch) (local.get $watch-len) (i32.const 96))
        (call $log-option (i32.const 96))))
    (if (i32.eq (local.get $import) (i32.const 3))
      (then
        (call $fields (local.get $object) (local.get $extra) (local.get $extra-len) (i32.const 96))
        (call $log-list)))
    (if (i32.eq (local.get $import) (i32.const 4))
      (then
        (call $texts (local.get $object) (local.get $extra) (local.get $extra-len) (i32.const 96))
        (call $log-list)))
    (call $close (local.get $object))
    (global.set $next (i32.const 8192))
    (i32.const 48))
)
