//! Devices: ResourceClaims, their templates, DeviceClasses and ResourceSlices.

use serde_json::Value;

use super::{AGE, Column, NAME, Row};

const CLASS: &[Column] = &[NAME, AGE];

const CLAIM: &[Column] = &[NAME, Column::text("State", claim_state), AGE];

const SLICE: &[Column] = &[
    NAME,
    Column::text("Node", |row| row.text("/spec/nodeName").into()),
    Column::text("Driver", |row| row.text("/spec/driver").into()),
    Column::text("Pool", |row| row.text("/spec/pool/name").into()),
    AGE,
];

pub(super) fn for_kind(kind: &str) -> &'static [Column] {
    match kind {
        "ResourceClaim" => CLAIM,
        "ResourceSlice" => SLICE,
        _ => CLASS,
    }
}

/// Formats the state of a claim as `kubectl get` shows it, such as `allocated,reserved`.
fn claim_state(row: &Row<'_>) -> Value {
    let is_deleted = !row.text("/metadata/deletionTimestamp").is_empty();
    let is_allocated = row.object.pointer("/status/allocation").is_some();
    let is_reserved = is_allocated && !row.list("/status/reservedFor").is_empty();
    let states = [
        (is_deleted, "deleted"),
        (!is_deleted && !is_allocated, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ];
    let states: Vec<_> = states.into_iter().filter(|(applies, _)| *applies).map(|(_, name)| name).collect();
    states.join(",").into()
}
