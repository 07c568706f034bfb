//! What a plugin should not do.

use std::hint::black_box;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use pilothouse_sdk::{Cache, Error, Object, ObjectKey, client, clock};

/// Uses up the time that the host gives.
pub(crate) fn spin_for_ever() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Keeps the instance busy for a while, by the host's clock.
pub(crate) fn spin(duration: Duration) {
    let start = clock::now();
    while clock::now().duration_since(start).unsigned_abs() < duration {
        black_box(());
    }
}

/// Uses up the memory that the host gives.
pub(crate) fn allocate_for_ever() -> ! {
    let mut blocks = Vec::new();
    loop {
        blocks.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Opens handles and never closes them.
pub(crate) fn hold_handles(cache: &Cache<'_, Object>, key: &ObjectKey, number: u32) {
    for _ in 0..number {
        std::mem::forget(cache.get(key));
    }
}

/// Writes something that the descriptor does not declare. The host's refusal is the expected result.
pub(crate) fn write_undeclared(key: &ObjectKey) -> Result<(), Error> {
    let mut secret = Secret::default();
    secret.metadata.namespace = Some(key.namespace.clone());
    secret.metadata.name = Some(key.name.clone());
    client::create(&secret)?;
    Err(Error::terminal("the host let an undeclared write pass"))
}

/// What `config.describe` asks for instead of a descriptor.
pub(crate) fn describe(fault: &str) -> Result<(), Error> {
    match fault {
        "loop" => spin_for_ever(),
        "panic" => panic!("asked to panic in describe"),
        "allocate" => allocate_for_ever(),
        message => Err(Error::terminal(message)),
    }
}
