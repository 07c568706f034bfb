//! Operations on queue, Events, metrics and log.

const std = @import("std");
const ph = @import("pilothouse");
const s = @import("script.zig");

pub const operations = .{
    .{ "add", add },
    .{ "add-after", addAfter },
    .{ "event", event },
    .{ "counter", counter },
    .{ "gauge", gauge },
    .{ "histogram", histogram },
    .{ "log", writeLog },
};

fn add(script: *const s.Script) s.Answer {
    ph.ph_queue_add(script.a, .{ .ns = script.b, .name = script.c });
    return s.value("added");
}

fn addAfter(script: *const s.Script) s.Answer {
    ph.ph_queue_add_after(script.a, .{ .ns = script.b, .name = script.c }, s.number(script.d));
    return s.value("added");
}

fn event(script: *const s.Script) s.Answer {
    if (ph.ph_equal(script.a, "warning")) {
        ph.ph_event_warning(script.object, script.b, script.c, "%s", script.d);
    } else {
        ph.ph_event_normal(script.object, script.b, script.c, "%s", script.d);
    }
    return s.value("published");
}

fn record(script: *const s.Script, metric: *const fn (s.String, ph.ph_pairs, f64) callconv(.c) void) s.Answer {
    const labels = [_]ph.ph_pair{.{ .key = script.b, .value = script.c }};
    const amount = std.fmt.parseFloat(f64, std.mem.span(script.d)) catch 0;
    metric(script.a, .{ .items = &labels, .count = labels.len }, amount);
    return s.value("recorded");
}

fn counter(script: *const s.Script) s.Answer {
    return record(script, ph.ph_counter);
}

fn gauge(script: *const s.Script) s.Answer {
    return record(script, ph.ph_gauge);
}

fn histogram(script: *const s.Script) s.Answer {
    return record(script, ph.ph_histogram);
}

fn writeLog(script: *const s.Script) s.Answer {
    // In the order of `ph_level`.
    const levels = [_]s.String{ "debug", "info", "warn", "error" };
    const fields = [_]ph.ph_pair{.{ .key = script.c, .value = script.d }};
    for (levels, 0..) |level, index| {
        if (!ph.ph_equal(level, script.a)) continue;
        ph.ph_log(@intCast(index), script.b, .{ .items = &fields, .count = fields.len });
    }
    return s.value("logged");
}
