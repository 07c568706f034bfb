;; Does what the first letter of the field data.wish of its ConfigMap says. Without an object or a wish it is done.
;; Each wish is a misbehaviour that the host must handle, or a call of a function that it must serve.
(module
  (import "pilothouse:controller/cache@0.1.1" "list-fields"
    (func $list-fields (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  ;; get(watch, key) -> option<object>: the last parameter is where the answer goes.
  (import "pilothouse:controller/cache@0.1.1" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "list"
    (func $list (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.text"
    (func $text (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.fields"
    (func $fields (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.texts"
    (func $texts (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "get"
    (func $client-get (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "list"
    (func $client-list (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "update" (func $update (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "patch"
    (func $patch (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "create" (func $create (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "delete"
    (func $delete (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/queue@0.1.1" "add-after" (func $add-after (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/metrics@0.1.1" "counter" (func $counter (param i32 i32 i32 i32 f64)))
  (import "pilothouse:controller/events@0.1.1" "publish"
    (func $publish (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (memory (export "memory") 1)

  ;; The descriptor, and the answer of describe: 0 (ok), then pointer and length of the text.
  (data (i32.const 1024) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"wish\",\"version\":\"1.0.0\",\"watches\":[{\"name\":\"configmaps\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"trigger\":\"self\"}]}")
  (data (i32.const 16) "\00\00\00\00\00\04\00\00\b0\00\00\00")

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

  (data (i32.const 512) "/data/wish")
  (data (i32.const 896) "v1\00\00ConfigMap")

  ;; A list of two pointers, /data/wish and /metadata/labels: address and length of each.
  (data (i32.const 976) "status")
  (data (i32.const 944) "/metadata/labels")
  (data (i32.const 928) "\00\02\00\00\0a\00\00\00\b0\03\00\00\10\00\00\00")

  ;; The answer err(failure): `tag` 0 is retry, 1 terminal.
  (func $failure (param $tag i32) (param $message i32) (param $length i32) (result i32)
    (i32.store8 (i32.const 64) (i32.const 1))
    (i32.store8 (i32.const 68) (local.get $tag))
    (i32.store (i32.const 72) (local.get $message))
    (i32.store (i32.const 76) (local.get $length))
    (i32.const 64))

  (func $inner unreachable)

  (func $recurse (param $depth i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get $depth) (i32.const 1))) (local.get $depth)))

  ;; One page of cache.list, its handles closed, its cursor logged and kept.
  (global $cursor (mut i32) (i32.const 0))
  (global $cursor-len (mut i32) (i32.const 0))
  (func $page (param $watch i32) (param $watch-len i32)
    (local $item i32) (local $count i32)
    (call $list (local.get $watch) (local.get $watch-len)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 2)
      (global.get $cursor) (global.get $cursor-len) (i32.const 96))
    (local.set $item (i32.load (i32.const 96)))
    (local.set $count (i32.load (i32.const 100)))
    (block $closed
      (loop $again
        (br_if $closed (i32.eqz (local.get $count)))
        (call $close (i32.load (local.get $item)))
        (local.set $item (i32.add (local.get $item) (i32.const 4)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $again)))
    (global.set $cursor (i32.load (i32.const 104)))
    (global.set $cursor-len (i32.load (i32.const 108)))
    (call $log (i32.const 1) (global.get $cursor) (global.get $cursor-len) (i32.const 0) (i32.const 0)))

  ;; Logs the first of the two values in the list at 96. A value: a tag, then address and length of the text. The second is none.
  (func $first-of-two
    (local $values i32)
    (local.set $values (i32.load (i32.const 96)))
    (if (i32.ne (i32.load (i32.const 100)) (i32.const 2)) (then unreachable))
    (if (i32.load8_u offset=12 (local.get $values)) (then unreachable))
    (call $log (i32.const 1) (i32.load offset=4 (local.get $values)) (i32.load offset=8 (local.get $values))
      (i32.const 0) (i32.const 0)))

  ;; reconcile(request) -> result<outcome, failure>
  (func $reconcile (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch-len i32)
    (param $namespace i32) (param $namespace-len i32) (param $name i32) (param $name-len i32)
    (param $reasons i32) (param $reasons-len i32) (param $attempt i32) (param $extra i32) (param $extra-len i32)
    (result i32)
    (local $object i32) (local $wish i32) (local $wish-len i32) (local $first i32) (local $count i32)
    (call $reset)
    ;; The strings of the request lie where `reset` begins, and the answers of the host must not overwrite them.
    (global.set $next (i32.const 16384))
    (call $get (local.get $watch) (local.get $watch-len) (local.get $namespace) (local.get $namespace-len)
      (local.get $name) (local.get $name-len) (i32.const 80))
    (if (i32.eqz (i32.load8_u (i32.const 80))) (then (return (i32.const 48))))
    (local.set $object (i32.load (i32.const 84)))
    (call $text (local.get $object) (i32.const 512) (i32.const 10) (i32.const 80))
    (if (i32.eqz (i32.load8_u (i32.const 80)))
      (then (call $close (local.get $object)) (return (i32.const 48))))
    (local.set $wish (i32.load (i32.const 84)))
    (local.set $wish-len (i32.load (i32.const 88)))
    (local.set $first (i32.load8_u (local.get $wish)))
    (if (i32.eq (local.get $first) (i32.const 100)) ;; 'd'
      (then
        ;; done
        (call $close (local.get $object))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 97)) ;; 'a'
      (then
        ;; after: again after 1500 ms
        (call $close (local.get $object))
        (i32.store8 (i32.const 64) (i32.const 0))
        (i32.store8 (i32.const 68) (i32.const 1))
        (i32.store (i32.const 72) (i32.const 1500))
        (return (i32.const 64))))
    (if (i32.eq (local.get $first) (i32.const 109)) ;; 'm'
      (then
        ;; most: again after a duration above the contract's maximum
        (call $close (local.get $object))
        (i32.store8 (i32.const 64) (i32.const 0))
        (i32.store8 (i32.const 68) (i32.const 1))
        (i32.store (i32.const 72) (i32.const 0xffffffff))
        (return (i32.const 64))))
    (if (i32.eq (local.get $first) (i32.const 114)) ;; 'r'
      (then
        ;; retry: a retryable error whose message is the wish
        (call $close (local.get $object))
        (return (call $failure (i32.const 0) (local.get $wish) (local.get $wish-len)))))
    (if (i32.eq (local.get $first) (i32.const 116)) ;; 't'
      (then
        ;; terminal: a terminal error whose message is the wish
        (call $close (local.get $object))
        (return (call $failure (i32.const 1) (local.get $wish) (local.get $wish-len)))))
    (if (i32.eq (local.get $first) (i32.const 112)) ;; 'p'
      (then
        ;; panic
        (call $inner)))
    (if (i32.eq (local.get $first) (i32.const 115)) ;; 's'
      (then
        ;; stack: recursion without end
        (drop (call $recurse (i32.const 0)))))
    (if (i32.eq (local.get $first) (i32.const 107)) ;; 'k'
      (then
        ;; keep: leaves the handle open
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 111)) ;; 'o'
      (then
        ;; open: opens handles without end
        (loop $again
          (call $get (local.get $watch) (local.get $watch-len) (local.get $namespace) (local.get $namespace-len)
            (local.get $name) (local.get $name-len) (i32.const 80))
          (br $again))))
    (if (i32.eq (local.get $first) (i32.const 117)) ;; 'u'
      (then
        ;; unknown: reads a watch that is not declared (the wish is its name)
        (call $get (local.get $wish) (local.get $wish-len) (local.get $namespace) (local.get $namespace-len)
          (local.get $name) (local.get $name-len) (i32.const 80))))
    (if (i32.eq (local.get $first) (i32.const 104)) ;; 'h'
      (then
        ;; huge: a log message larger than the limit allows
        (drop (memory.grow (i32.const 300)))
        (call $log (i32.const 1) (i32.const 8192) (i32.const 17000000) (i32.const 0) (i32.const 0))))
    (if (i32.eq (local.get $first) (i32.const 98)) ;; 'b'
      (then
        ;; bad: a log message that is not UTF-8
        (i32.store (i32.const 128) (i32.const 0xfffefdfc))
        (call $log (i32.const 1) (i32.const 128) (i32.const 4) (i32.const 0) (i32.const 0))))
    (if (i32.eq (local.get $first) (i32.const 120)) ;; 'x'
      (then
        ;; outside: a log message beyond the end of memory
        (call $log (i32.const 1) (i32.const 0x7ffffff0) (i32.const 100) (i32.const 0) (i32.const 0))))
    (if (i32.eq (local.get $first) (i32.const 102)) ;; 'f'
      (then
        ;; flood: 5,000 log lines, then done
        (local.set $count (i32.const 5000))
        (loop $again
          (call $log (i32.const 1) (local.get $wish) (local.get $wish-len) (i32.const 0) (i32.const 0))
          (local.set $count (i32.sub (local.get $count) (i32.const 1)))
          (br_if $again (local.get $count)))
        (call $close (local.get $object))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 99)) ;; 'c'
      (then
        ;; create: the manifest follows the c; an error of the server is returned as a retry
        (call $close (local.get $object))
        (call $create (i32.add (local.get $wish) (i32.const 1)) (i32.sub (local.get $wish-len) (i32.const 1)) (i32.const 0) (i32.const 0) (i32.const 256))
        (if (i32.load8_u (i32.const 256))
          ;; In every error with a text, the text is at 264, after the tags of the result and the variant, 4 bytes each.
          (then (return (call $failure (i32.const 0) (i32.load (i32.const 264)) (i32.load (i32.const 268))))))
        (call $close (i32.load (i32.const 260)))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 101)) ;; 'e'
      (then
        ;; erase: delete the object (ConfigMap of v1 at 896, background, no preconditions)
        (call $close (local.get $object))
        (call $delete (i32.const 896) (i32.const 2) (i32.const 900) (i32.const 9)
          (local.get $namespace) (local.get $namespace-len) (local.get $name) (local.get $name-len)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 113)) ;; 'q'
      (then
        ;; queue: queues this key again after 2 s, and records a metric and an Event
        (call $add-after (local.get $watch) (local.get $watch-len) (local.get $namespace) (local.get $namespace-len)
          (local.get $name) (local.get $name-len) (i32.const 2000))
        (call $counter (local.get $wish) (local.get $wish-len) (i32.const 0) (i32.const 0) (f64.const 2))
        (call $publish (local.get $object) (i32.const 1) (local.get $wish) (local.get $wish-len)
          (local.get $wish) (local.get $wish-len) (local.get $wish) (local.get $wish-len))
        (call $close (local.get $object))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 103)) ;; 'g'
      (then
        ;; get: gets the object and lists all ConfigMaps from the server, updates with the wish, then applies it by force to the status
        (call $close (local.get $object))
        (call $client-get (i32.const 896) (i32.const 2) (i32.const 900) (i32.const 9)
          (local.get $namespace) (local.get $namespace-len) (local.get $name) (local.get $name-len)
          (i32.const 0) (i32.const 0) (i32.const 256))
        (if (i32.load8_u (i32.const 256)) (then unreachable))
        (call $close (i32.load (i32.const 260)))
        (call $client-list (i32.const 896) (i32.const 2) (i32.const 900) (i32.const 9)
          (local.get $namespace) (local.get $namespace-len)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
        (if (i32.ne (i32.load (i32.const 264)) (i32.const 1)) (then unreachable))
        (call $close (i32.load (i32.load (i32.const 260))))
        (call $update (local.get $wish) (local.get $wish-len) (i32.const 0) (i32.const 0) (i32.const 256))
        (if (i32.ne (i32.load8_u (i32.const 260)) (i32.const 3)) (then unreachable)) ;; invalid: the wish is not JSON
        (call $patch (i32.const 896) (i32.const 2) (i32.const 900) (i32.const 9)
          (local.get $namespace) (local.get $namespace-len) (local.get $name) (local.get $name-len)
          (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 1) ;; apply, with no field manager of its own, by force
          (local.get $wish) (local.get $wish-len) (i32.const 976) (i32.const 6) (i32.const 256))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 119)) ;; 'w'
      (then
        ;; wishes: reads the values at the two pointers for every object in one call; logs a line per object
        (call $close (local.get $object))
        (call $list-fields (local.get $watch) (local.get $watch-len)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.const 928) (i32.const 2) (i32.const 96))
        (local.set $object (i32.load (i32.const 96)))
        (local.set $count (i32.load (i32.const 100)))
        (loop $again
          ;; A row: the key (16 bytes), then address and number of the values; a value: a tag, then address and length of the text.
          (local.set $wish (i32.load offset=16 (local.get $object)))
          (call $log (i32.const 1) (i32.load offset=4 (local.get $wish)) (i32.load offset=8 (local.get $wish))
            (i32.const 0) (i32.const 0))
          ;; The second value is none.
          (if (i32.load8_u offset=12 (local.get $wish)) (then unreachable))
          (local.set $object (i32.add (local.get $object) (i32.const 24)))
          (local.set $count (i32.sub (local.get $count) (i32.const 1)))
          (br_if $again (local.get $count)))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 118)) ;; 'v'
      (then
        ;; values: reads whole objects, each as many times as the wish has bytes
        (call $close (local.get $object))
        (call $list-fields (local.get $watch) (local.get $watch-len)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.const 48000) (local.get $wish-len) (i32.const 96))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 121)) ;; 'y'
      (then
        ;; yield: reads the values at the two pointers in one call, as JSON and as text; logs a line for each call
        (call $fields (local.get $object) (i32.const 928) (i32.const 2) (i32.const 96))
        (call $first-of-two)
        (call $texts (local.get $object) (i32.const 928) (i32.const 2) (i32.const 96))
        (call $first-of-two)
        (call $close (local.get $object))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 106)) ;; 'j'
      (then
        ;; json: reads the whole object as many times as the wish has bytes
        (call $fields (local.get $object) (i32.const 48000) (local.get $wish-len) (i32.const 96))
        (call $close (local.get $object))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 122)) ;; 'z'
      (then
        ;; z: the same with object.texts
        (call $texts (local.get $object) (i32.const 48000) (local.get $wish-len) (i32.const 96))
        (call $close (local.get $object))
        (return (i32.const 48))))
    (if (i32.eq (local.get $first) (i32.const 108)) ;; 'l'
      (then
        ;; list: reads pages of two objects; logs a line per page
        (call $close (local.get $object))
        (global.set $cursor (i32.const 0)) (global.set $cursor-len (i32.const 0))
        (loop $again
          (call $page (local.get $watch) (local.get $watch-len))
          (br_if $again (global.get $cursor-len)))
        (return (i32.const 48))))
    unreachable)
)
