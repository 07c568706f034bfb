;; One package in two versions, without a component type.
(module
  (import "wasi:clocks/monotonic-clock@0.2.6" "now" (func (result i64)))
  (import "wasi:clocks/wall-clock@5.2.6" "now" (func (param i32)))
  (memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param i32 i32) (result i32) (i32.const 16))
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 16)))
