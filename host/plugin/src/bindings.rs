//! Rust types and traits generated from `wit/`. Private: the crate's own types stand before them.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
    with: {
        "pilothouse:controller/objects.object": crate::sandbox::ObjectHandle,
        "pilothouse:controller/changes.batch": crate::sandbox::BatchHandle,
    },
    imports: {
        // What can wait suspends the guest; everything else answers on the spot.
        "pilothouse:controller/client": async | trappable,
        // These look at many objects, and give way meanwhile.
        "pilothouse:controller/cache.list": async | trappable,
        "pilothouse:controller/cache.list-fields": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});
