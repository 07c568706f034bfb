;; Creates resources of WASI's HTTP and keeps them; sends no request. The first letter of the object's name says which, and the request's
;; attempt is a number N:
;;   m, p, a, s  sets the method, path, authority or scheme of a request to a text of N bytes; logs 0, or 1 if it was refused
;;   f           appends a value of N bytes to new fields; logs 0, or 1 if it was refused
;;   e           keeps N empty fields
;;   k           keeps N fields of 8,000 bytes
;;   b           keeps N requests, each with a body to which it writes twice as much as it may in one call
;; Its imports are not in the contract, so the tests add a component type.
(module
  (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
  (import "wasi:http/types@0.2.0" "[method]fields.append" (func $append (param i32 i32 i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $request (param i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-method" (func $set-method (param i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-path-with-query" (func $set-path (param i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-authority" (func $set-authority (param i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-scheme" (func $set-scheme (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-request.body" (func $body (param i32 i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-body.write" (func $stream (param i32 i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.check-write" (func $check-write (param i32 i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 64)

  (data (i32.const 1024) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"hoard\",\"version\":\"1.0.0\",\"watches\":[{\"name\":\"configmaps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"trigger\":\"self\"}]}")
  (data (i32.const 16) "\00\00\00\00\00\04\00\00\b1\00\00\00")
  (data (i32.const 528) "x-a")
  ;; The texts begin here, after a slash for paths.
  (data (i32.const 65535) "/")

  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param i32 i32) (result i32)
    (i32.const 16))

  (global $next (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  (func $say (param $code i32)
    (i32.store8 (i32.const 512) (i32.add (i32.const 48) (local.get $code)))
    (call $log (i32.const 1) (i32.const 512) (i32.const 1) (i32.const 0) (i32.const 0)))

  (func $new-request (result i32)
    (call $request (call $fields)))

  ;; Creates fields with one value. Returns 0, or 1 if the value was refused.
  (func $fields-of (param $bytes i32) (result i32)
    (call $append (call $fields) (i32.const 528) (i32.const 3) (i32.const 65536) (local.get $bytes) (i32.const 80))
    (i32.load8_u (i32.const 80)))

  ;; Writes as much to the stream as one call may.
  (func $write-all (param $stream i32)
    (call $check-write (local.get $stream) (i32.const 80))
    (call $write (local.get $stream) (i32.const 65536) (i32.load (i32.const 88)) (i32.const 80)))

  (func $request-with-body
    (local $stream i32)
    (call $body (call $new-request) (i32.const 80))
    (call $stream (i32.load (i32.const 84)) (i32.const 80))
    (local.set $stream (i32.load (i32.const 84)))
    (call $write-all (local.get $stream))
    (call $write-all (local.get $stream)))

  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param i32) (param i32) (param i32) (param i32) (param $name i32) (param i32)
    (param i32) (param i32) (param $n i32) (param i32) (param i32)
    (result i32)
    (local $what i32)
    (memory.fill (i32.const 65536) (i32.const 97) (i32.const 2097152))
    (local.set $what (i32.load8_u (local.get $name)))
    (if (i32.eq (local.get $what) (i32.const 109))
      (then (call $say (call $set-method (call $new-request) (i32.const 9) (i32.const 65536) (local.get $n)))))
    (if (i32.eq (local.get $what) (i32.const 112))
      (then (call $say (call $set-path (call $new-request) (i32.const 1) (i32.const 65535) (local.get $n)))))
    (if (i32.eq (local.get $what) (i32.const 97))
      (then (call $say (call $set-authority (call $new-request) (i32.const 1) (i32.const 65536) (local.get $n)))))
    (if (i32.eq (local.get $what) (i32.const 115))
      (then (call $say (call $set-scheme (call $new-request) (i32.const 1) (i32.const 2) (i32.const 65536) (local.get $n)))))
    (if (i32.eq (local.get $what) (i32.const 102))
      (then (call $say (call $fields-of (local.get $n)))))
    (if (i32.gt_u (local.get $n) (i32.const 0))
      (then
        (loop $more
          (if (i32.eq (local.get $what) (i32.const 101)) (then (drop (call $fields))))
          (if (i32.eq (local.get $what) (i32.const 107)) (then (drop (call $fields-of (i32.const 8000)))))
          (if (i32.eq (local.get $what) (i32.const 98)) (then (call $request-with-body)))
          (local.set $n (i32.sub (local.get $n) (i32.const 1)))
          (br_if $more (local.get $n)))))
    (i32.const 48))
)
