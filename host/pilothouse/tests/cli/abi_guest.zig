//! A plugin over nothing but the header that `pilothouse abi --format c` prints, translated by `zig translate-c`. It logs the field data.text
//! of each ConfigMap.
const abi = @import("abi.zig");

/// Memory for what the host passes in. Nothing is kept from one call to the next.
var arena: [64 * 1024]u8 align(16) = undefined;
var used: usize = 0;

export fn cabi_realloc(old: ?[*]const u8, old_size: usize, alignment: usize, new_size: usize) [*]u8 {
    const start = (used + alignment - 1) & ~(alignment - 1);
    if (new_size > arena.len or start > arena.len - new_size) @trap();
    const block = arena[start..][0..new_size];
    if (old) |bytes| @memcpy(block[0..@min(old_size, new_size)], bytes[0..@min(old_size, new_size)]);
    used = start + new_size;
    return block.ptr;
}

const descriptor =
    \\{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","name":"by-hand","version":"1.0.0",
    \\"watches":[{"name":"maps","apiVersion":"v1","kind":"ConfigMap","trigger":"self"}]}
;

var described: abi.ph_result_string_string = undefined;

export fn ph_describe(_: [*c]const u8, _: usize) *abi.ph_result_string_string {
    described.is_err = false;
    described.value.ok = .{ .ptr = descriptor, .len = descriptor.len };
    return &described;
}

export fn cabi_post_ph_describe(_: *abi.ph_result_string_string) void {
    used = 0;
}

var reconciled: abi.ph_result_types_outcome_types_failure = undefined;

export fn ph_reconcile(
    watch: [*c]const u8,
    watch_len: usize,
    ns: [*c]const u8,
    ns_len: usize,
    name: [*c]const u8,
    name_len: usize,
    _: [*c]const abi.ph_types_reason,
    _: usize,
    _: u32,
    _: [*c]const abi.ph_types_pair,
    _: usize,
) *abi.ph_result_types_outcome_types_failure {
    const pointer = "/data/text";
    var found: abi.ph_option_objects_object = undefined;
    abi.ph_cache_get(watch, watch_len, ns, ns_len, name, name_len, &found);
    if (found.is_some) {
        var text: abi.ph_option_string = undefined;
        abi.ph_objects_object_text(found.value, pointer, pointer.len, &text);
        if (text.is_some) abi.ph_log_log(abi.PH_LOG_LEVEL_INFO, text.value.ptr, text.value.len, null, 0);
        abi.ph_objects_object_drop(found.value);
    }
    reconciled.is_err = false;
    reconciled.value.ok.tag = abi.PH_TYPES_OUTCOME_DONE;
    return &reconciled;
}

export fn cabi_post_ph_reconcile(_: *abi.ph_result_types_outcome_types_failure) void {
    used = 0;
}
