//! Rust types and traits generated from `wit/`. They are private; the crate's public API has types of its own.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
    with: {
        "pilothouse:controller/objects.object": crate::sandbox::ObjectHandle,
        "pilothouse:controller/changes.batch": crate::sandbox::BatchHandle,
    },
    imports: {
        // Requests suspend the guest; all other functions answer from memory.
        "pilothouse:controller/client": async | trappable,
        // These read many objects, and yield meanwhile.
        "pilothouse:controller/cache.list": async | trappable,
        "pilothouse:controller/cache.list-fields": async | trappable,
        "pilothouse:controller/cache.by-index": async | trappable,
        "pilothouse:controller/cache.index-keys": async | trappable,
        "pilothouse:controller/cache.index-values": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});
