(component
  (core module $guest
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (func (export "describe") (param i32 i32) (result i32) i32.const 16)
    (data (i32.const 16) "\00\00\00\00\20\00\00\00\02\00\00\00")
    (data (i32.const 32) "{}"))
  (core instance $instance (instantiate $guest))
  (type $describe (func (param "config" string) (result (result string (error string)))))
  (func $describe (type $describe)
    (canon lift (core func $instance "describe")
      (memory (core memory $instance "memory")) (realloc (core func $instance "realloc"))))
  (instance $plugin (export "describe" (func $describe)))
  (export "pilothouse:controller/plugin@0.1.1" (instance $plugin)))
