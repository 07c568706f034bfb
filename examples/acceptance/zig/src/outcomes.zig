//! Operations on the request, outcomes, faults and finalizers.

const std = @import("std");
const ph = @import("pilothouse");
const s = @import("script.zig");

pub const operations = .{
    .{ "info", info },
    .{ "requeue", requeue },
    .{ "retry", retry },
    .{ "terminal", terminal },
    .{ "trap", trap },
    .{ "loop", loop },
    .{ "allocate", allocate },
    .{ "unknown-watch", unknownWatch },
    .{ "finalizer", finalizer },
};

fn isBefore(_: void, a: s.String, b: s.String) bool {
    return std.mem.orderZ(u8, a, b) == .lt;
}

fn info(script: *const s.Script) s.Answer {
    const request = script.request;
    // There are eight reasons, and each occurs at most once.
    var names: [8]s.String = undefined;
    const count = @min(request.reason_count, names.len);
    for (names[0..count], request.reasons[0..count]) |*name, reason| name.* = ph.ph_reason_text(reason);
    std.mem.sort(s.String, names[0..count], {}, isBefore);
    var reasons: s.Joined = .{ .separator = "," };
    for (names[0..count]) |name| reasons.add(name);
    const key = ph.ph_key_text(request.key);
    return s.value(ph.ph_format("%s %s attempt=%u reasons=%s", request.watch, key, request.attempt, reasons.done()));
}

fn requeue(script: *const s.Script) s.Answer {
    if (ph.ph_has_reason(script.request, ph.PH_REASON_REQUEUE)) return s.value("requeued");
    return .{ .silent = ph.ph_requeue_after(s.number(script.a)) };
}

fn retry(script: *const s.Script) s.Answer {
    const attempt = script.request.attempt;
    if (attempt >= s.number(script.a)) return s.value(ph.ph_format("attempt=%u", attempt));
    return .{ .silent = ph.ph_retry("attempt %u of %s", attempt, script.a) };
}

fn terminal(script: *const s.Script) s.Answer {
    return .{ .silent = ph.ph_terminal("%s", script.a) };
}

fn trap(script: *const s.Script) s.Answer {
    if (script.request.attempt == 0) @panic(std.mem.span(script.a));
    return s.value("recovered");
}

fn loop(script: *const s.Script) s.Answer {
    var turns: u32 = 0;
    while (script.request.attempt == 0) {
        turns +%= 1;
        std.mem.doNotOptimizeAway(turns);
    }
    return s.value("recovered");
}

fn allocate(script: *const s.Script) s.Answer {
    while (script.request.attempt == 0) _ = ph.ph_alloc(1 << 20);
    return s.value("recovered");
}

fn unknownWatch(script: *const s.Script) s.Answer {
    if (script.request.attempt == 0) _ = ph.ph_cache_get("nonesuch", script.request.key);
    return s.value("recovered");
}

fn hold(phase: ph.ph_phase, _: ?*ph.ph_object, context: ?*anyopaque) callconv(.c) ph.ph_outcome {
    const script: *const s.Script = @ptrCast(@alignCast(context));
    s.logResult(script.op, if (phase == ph.PH_PHASE_APPLY) "held" else "cleaned");
    return ph.ph_done();
}

fn finalizer(script: *const s.Script) s.Answer {
    const name = "acceptance.pilothouse.dev/cleanup";
    return .{ .silent = ph.ph_with_finalizer(script.object, name, hold, @constCast(script)) };
}
