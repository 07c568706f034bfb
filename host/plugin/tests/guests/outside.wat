;; Tries to escape its sandbox through WASI preview 1, as a language runtime would. For each attempt it logs a line with a name and the
;; error number or a count in two digits, such as "open 08" (bad descriptor). Then, if `attempt` is 0 it sleeps for an hour, else it exits.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $path_unlink_file (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  ;; The adapter for preview 1 allocates 64 KiB from cabi_realloc and keeps them: so there is more memory, and it is never reset.
  (memory (export "memory") 8)

  (global $next (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $address i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.get $address))

  (data (i32.const 512) "/etc/passwd")
  (data (i32.const 1024) "prestat ")
  (data (i32.const 1040) "open    ")
  (data (i32.const 1056) "unlink  ")
  (data (i32.const 1072) "read    ")
  (data (i32.const 1088) "environ ")
  (data (i32.const 1104) "args    ")
  (data (i32.const 1120) "clock   ")
  ;; Where input would go: 64 bytes at 768.
  (data (i32.const 704) "\00\03\00\00\40\00\00\00")

  ;; Logs a name of eight letters, followed by a number in two digits.
  (func $say (param $what i32) (param $number i32)
    (i32.store8 (i32.add (local.get $what) (i32.const 8)) (i32.add (i32.const 48) (i32.div_u (local.get $number) (i32.const 10))))
    (i32.store8 (i32.add (local.get $what) (i32.const 9)) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
    (call $log (i32.const 1) (local.get $what) (i32.const 10) (i32.const 0) (i32.const 0)))

  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $config))
    (i32.store (i32.const 24) (local.get $length))
    (i32.const 16))

  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param i32) (param i32) (param i32) (param i32) (param i32) (param i32)
    (param i32) (param i32) (param $attempt i32) (param i32) (param i32)
    (result i32)
    ;; A preopened directory, which is the only way to a file.
    (call $say (i32.const 1024) (call $fd_prestat_get (i32.const 3) (i32.const 640)))
    (call $say (i32.const 1040)
      (call $path_open (i32.const 3) (i32.const 0) (i32.const 512) (i32.const 11) (i32.const 0) (i64.const 2) (i64.const 0)
        (i32.const 0) (i32.const 640)))
    (call $say (i32.const 1056) (call $path_unlink_file (i32.const 3) (i32.const 512) (i32.const 11)))
    ;; Standard input: how many bytes there are.
    (drop (call $fd_read (i32.const 0) (i32.const 704) (i32.const 1) (i32.const 640)))
    (call $say (i32.const 1072) (i32.load (i32.const 640)))
    ;; How many variables and arguments there are.
    (drop (call $environ_sizes_get (i32.const 640) (i32.const 644)))
    (call $say (i32.const 1088) (i32.load (i32.const 640)))
    (drop (call $args_sizes_get (i32.const 640) (i32.const 644)))
    (call $say (i32.const 1104) (i32.load (i32.const 640)))
    ;; The clock of the process's CPU time, which would leak information about other plugins.
    (call $say (i32.const 1120) (call $clock_time_get (i32.const 2) (i64.const 1) (i32.const 640)))
    (if (i32.eqz (local.get $attempt)) (then (call $sleep)))
    (if (local.get $attempt) (then (call $proc_exit (i32.const 3))))
    (i32.const 48))

  ;; poll_oneoff with one subscription of the monotonic clock: 48 bytes at 1200, of which the clock's id is at 16 and the time at 24.
  (func $sleep
    (i32.store (i32.const 1216) (i32.const 1))
    (i64.store (i32.const 1224) (i64.const 3600000000000))
    (drop (call $poll_oneoff (i32.const 1200) (i32.const 1300) (i32.const 1) (i32.const 640))))
)
