//! The bindings that wit-bindgen generates from the WIT package. They are not part of the SDK's public API.
//!
//! The imports are generated once, together with `plugin`, which every guest exports. Each further export has its own world over the
//! same imports, so that a guest exports only what `export!` names. The linker merges the descriptions of the worlds.
#![allow(missing_docs, unreachable_pub, unsafe_op_in_unsafe_fn, clippy::all)]

wit_bindgen::generate!({
    // `../../wit` is the single source of the contract; docs/decisions/0002-building-guests.md explains how a copy gets into a
    // published crate.
    path: ["../../wit", "wit/wasi-clocks"],
    inline: r#"
        package pilothouse:sdk;
        world guest {
            include pilothouse:controller/imports@0.1.1;
            import wasi:clocks/wall-clock@0.2.0;
            export pilothouse:controller/plugin@0.1.1;
        }
    "#,
    world: "pilothouse:sdk/guest",
    generate_all,
    additional_derives: [PartialEq, Eq, PartialOrd, Ord, Hash],
    // These hold handles.
    additional_derives_ignore: ["page"],
    pub_export_macro: true,
    export_macro_name: "__export_plugin",
    default_bindings_module: "pilothouse_sdk::bindings",
});

pub mod reconcile {
    //! The export `reconcile`.
    wit_bindgen::generate!({
        path: ["../../wit", "wit/wasi-clocks"],
        inline: r#"
            package pilothouse:sdk-reconcile;
            world reconcile {
                export pilothouse:controller/reconcile@0.1.1;
            }
        "#,
        world: "pilothouse:sdk-reconcile/reconcile",
        with: {
            "pilothouse:controller/types@0.1.1": crate::bindings::pilothouse::controller::types,
        },
        pub_export_macro: true,
        export_macro_name: "__export_reconcile",
        default_bindings_module: "pilothouse_sdk::bindings::reconcile",
    });
}

pub mod observe {
    //! The export `observe`.
    wit_bindgen::generate!({
        path: ["../../wit", "wit/wasi-clocks"],
        inline: r#"
            package pilothouse:sdk-observe;
            world observe {
                export pilothouse:controller/observe@0.1.1;
            }
        "#,
        world: "pilothouse:sdk-observe/observe",
        with: {
            "pilothouse:controller/types@0.1.1": crate::bindings::pilothouse::controller::types,
            "pilothouse:controller/objects@0.1.1": crate::bindings::pilothouse::controller::objects,
            "pilothouse:controller/changes@0.1.1": crate::bindings::pilothouse::controller::changes,
        },
        pub_export_macro: true,
        export_macro_name: "__export_observe",
        default_bindings_module: "pilothouse_sdk::bindings::observe",
    });
}

pub mod index {
    //! The export `index`.
    wit_bindgen::generate!({
        path: ["../../wit", "wit/wasi-clocks"],
        inline: r#"
            package pilothouse:sdk-index;
            world index {
                export pilothouse:controller/index@0.1.1;
            }
        "#,
        world: "pilothouse:sdk-index/index",
        with: {
            "pilothouse:controller/types@0.1.1": crate::bindings::pilothouse::controller::types,
            "pilothouse:controller/objects@0.1.1": crate::bindings::pilothouse::controller::objects,
        },
        pub_export_macro: true,
        export_macro_name: "__export_index",
        default_bindings_module: "pilothouse_sdk::bindings::index",
    });
}
