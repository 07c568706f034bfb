;; Tries to use the network through WASI's sockets: connects a TCP socket, binds a UDP socket and resolves a name. Logs the error code of
;; each in two digits; "99" would be success. If the name of the object begins with 'm', it instead creates handles of its own resource type
;; without end. Its imports are not in the contract, so the tests add a component type.
(module
  (import "wasi:sockets/instance-network@0.2.0" "instance-network" (func $network (result i32)))
  (import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $create-tcp (param i32 i32)))
  (import "wasi:sockets/udp-create-socket@0.2.0" "create-udp-socket" (func $create-udp (param i32 i32)))
  (import "wasi:sockets/tcp@0.2.0" "[method]tcp-socket.start-connect"
    (func $connect (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "wasi:sockets/udp@0.2.0" "[method]udp-socket.start-bind"
    (func $bind (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "wasi:sockets/ip-name-lookup@0.2.0" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))
  (import "[export]mine:types/things@0.1.0" "[resource-new]thing" (func $new (param i32) (result i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)

  (data (i32.const 1024) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"sockets\",\"version\":\"1.0.0\",\"watches\":[{\"name\":\"configmaps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"trigger\":\"self\"}]}")
  (data (i32.const 16) "\00\00\00\00\00\04\00\00\b3\00\00\00")
  (data (i32.const 512) "tcp  ")
  (data (i32.const 528) "udp  ")
  (data (i32.const 544) "name ")
  (data (i32.const 560) "localhost")

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

  ;; Logs a name of five letters, followed by the error code of the result at 80. The code is `at` bytes after the tag.
  (func $say (param $what i32) (param $at i32)
    (local $code i32)
    (local.set $code (i32.const 99))
    (if (i32.load8_u (i32.const 80)) (then (local.set $code (i32.load8_u (i32.add (i32.const 80) (local.get $at))))))
    (i32.store8 (i32.add (local.get $what) (i32.const 5)) (i32.add (i32.const 48) (i32.div_u (local.get $code) (i32.const 10))))
    (i32.store8 (i32.add (local.get $what) (i32.const 6)) (i32.add (i32.const 48) (i32.rem_u (local.get $code) (i32.const 10))))
    (call $log (i32.const 1) (local.get $what) (i32.const 7) (i32.const 0) (i32.const 0)))

  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param i32) (param i32) (param i32) (param i32) (param $name i32) (param i32)
    (param i32) (param i32) (param i32) (param i32) (param i32)
    (result i32)
    (local $network i32)
    (if (i32.eq (i32.load8_u (local.get $name)) (i32.const 109)) (then (loop $more (drop (call $new (i32.const 7))) (br $more))))
    (local.set $network (call $network))
    ;; 127.0.0.1, port 80, from a socket of IPv4.
    (call $create-tcp (i32.const 0) (i32.const 80))
    (if (i32.eqz (i32.load8_u (i32.const 80)))
      (then
        (call $connect (i32.load (i32.const 84)) (local.get $network) (i32.const 0) (i32.const 80)
          (i32.const 127) (i32.const 0) (i32.const 0) (i32.const 1)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 80))
        (call $say (i32.const 512) (i32.const 1)))
      (else (call $say (i32.const 512) (i32.const 4))))
    (call $create-udp (i32.const 0) (i32.const 80))
    (if (i32.eqz (i32.load8_u (i32.const 80)))
      (then
        (call $bind (i32.load (i32.const 84)) (local.get $network) (i32.const 0) (i32.const 0)
          (i32.const 127) (i32.const 0) (i32.const 0) (i32.const 1)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 80))
        (call $say (i32.const 528) (i32.const 1)))
      (else (call $say (i32.const 528) (i32.const 4))))
    (call $resolve (local.get $network) (i32.const 560) (i32.const 9) (i32.const 80))
    (call $say (i32.const 544) (i32.const 4))
    (i32.const 48))
)
