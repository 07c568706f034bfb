//! Faults: what a plugin should not do.

use std::hint::black_box;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use pilothouse_sdk::{Cache, Context, Error, Object, ObjectKey, clock};

/// Computes until the host's time limit stops the instance.
pub(crate) fn spin_forever() -> ! {
    let mut iterations = 0_u64;
    loop {
        iterations = black_box(iterations.wrapping_add(1));
    }
}

/// Keeps the instance busy for this time, by the host's clock.
pub(crate) fn spin(duration: Duration) {
    let start = clock::now();
    while clock::now().duration_since(start).unsigned_abs() < duration {
        black_box(());
    }
}

/// Allocates until the host's memory limit stops the instance.
pub(crate) fn allocate_forever() -> ! {
    let mut blocks = Vec::new();
    loop {
        blocks.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Opens handles and never closes them.
pub(crate) fn leak_handles(cache: &Cache<'_, Object>, key: &ObjectKey, number: u32) {
    for _ in 0..number {
        std::mem::forget(cache.get(key));
    }
}

/// Sends a write that the descriptor does not declare. The host is expected to deny it.
pub(crate) fn write_undeclared(ctx: &Context<'_>, key: &ObjectKey) -> Result<(), Error> {
    let mut secret = Secret::default();
    secret.metadata.namespace = Some(key.namespace.clone());
    secret.metadata.name = Some(key.name.clone());
    ctx.client().create(&secret)?;
    Err(Error::terminal("the host allowed an undeclared write"))
}

/// Does what `config.describe` asks for, instead of returning a descriptor.
pub(crate) fn describe(fault: &str) -> Result<(), Error> {
    match fault {
        "loop" => spin_forever(),
        "panic" => panic!("asked to panic in describe"),
        "allocate" => allocate_forever(),
        message => Err(Error::terminal(message)),
    }
}
