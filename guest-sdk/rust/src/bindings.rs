//! What wit-bindgen makes of the WIT package. Not a part of the SDK's promise: everything an author needs is in the
//! modules beside this one.
#![allow(missing_docs, unreachable_pub, unsafe_op_in_unsafe_fn, clippy::all)]

wit_bindgen::generate!({
    // `../../wit` is the one source of the contract; docs/decisions/0002-building-guests.md says how the published crate
    // gets its copy.
    path: ["../../wit", "wit/wasi-clocks"],
    inline: r#"
        package pilothouse:sdk;
        world guest {
            include pilothouse:controller/reconciler@0.1.0;
            import wasi:clocks/wall-clock@0.2.0;
        }
    "#,
    world: "pilothouse:sdk/guest",
    generate_all,
    additional_derives: [PartialEq, Eq, PartialOrd, Ord, Hash],
    // These hold handles.
    additional_derives_ignore: ["page"],
    pub_export_macro: true,
    export_macro_name: "__export_reconciler",
    default_bindings_module: "pilothouse_sdk::bindings",
});
