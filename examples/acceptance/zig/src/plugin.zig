//! The acceptance plugin in Zig, over the C SDK, as specified by ../../README.md.

const std = @import("std");
const ph = @import("pilothouse");
const s = @import("script.zig");

const verbs = [_]s.String{ "get", "list", "create", "update", "patch", "delete", null };

const plugin: ph.ph_plugin = .{
    .name = "acceptance-zig",
    .version = "0.1.0",
    .watches = &[_]ph.ph_watch{
        .{
            .name = "scripts",
            .api_version = "v1",
            .kind = "ConfigMap",
            .label_selector = "test=acceptance",
            .trigger = .{ .kind = ph.PH_SELF },
        },
        .{
            .name = "items",
            .api_version = "v1",
            .kind = "ConfigMap",
            .label_selector = "test=acceptance-item",
            .notify = true,
            .indexes = &[_]ph.ph_index{
                .{ .name = "byGroup", .field = "{.data.group}" },
                .{ .name = "byWord", .computed = true },
                .{},
            },
        },
        .{ .name = "namespaces", .api_version = "v1", .kind = "Namespace" },
        .{
            .name = "deployments",
            .api_version = "apps/v1",
            .kind = "Deployment",
            .label_selector = "test=acceptance-item",
        },
        .{},
    },
    .writes = &[_]ph.ph_rule{
        .{
            .api_groups = &[_]s.String{ "", null },
            .resources = &[_]s.String{ "configmaps", null },
            .verbs = &verbs,
        },
        .{
            .api_groups = &[_]s.String{ "apps", null },
            .resources = &[_]s.String{ "deployments", "deployments/status", "deployments/scale", null },
            .verbs = &verbs,
        },
        .{},
    },
};

const operations = std.StaticStringMap(s.Operation).initComptime(
    @import("cache.zig").operations ++ @import("client.zig").operations ++
        @import("effects.zig").operations ++ @import("outcomes.zig").operations,
);

/// Writes the text of a panic to the plugin's log and traps. The default would write it to standard error, through WASI.
pub const panic = std.debug.FullPanic(logPanic);

fn logPanic(message: []const u8, _: ?usize) noreturn {
    ph.ph_panic("%.*s", @as(c_int, @intCast(message.len)), message.ptr);
}

export fn describe(config: s.String) ph.ph_description {
    const fail = ph.ph_json_text_at(config, "/fail");
    return if (fail == null) ph.ph_describe_as(&plugin) else ph.ph_refuse("%s", fail);
}

export fn reconcile(request: *const ph.ph_request) ph.ph_outcome {
    const object = ph.ph_cache_get("scripts", request.key) orelse return ph.ph_done();
    const script = s.Script.read(request, object);
    const run = operations.get(std.mem.span(script.op)) orelse return ph.ph_terminal("no operation %s", script.op);
    switch (run(&script)) {
        .silent => |outcome| return outcome,
        .value => |text| s.logResult(script.op, text),
    }
    return ph.ph_done();
}

export fn observe(notifications: [*]const ph.ph_notification, count: usize, batch: *const ph.ph_batch) ph.ph_outcome {
    // In the order of `ph_change`.
    const changes = [_]s.String{ "added", "updated", "deleted", "resync" };
    for (notifications[0..count], 0..) |notification, position| {
        const before = ph.ph_before(batch, position);
        const after = ph.ph_after(batch, position);
        if (after != null and ph.ph_equal(ph.ph_text(after, "/data/value"), "trap")) @panic("asked to trap");
        const fields = [_]ph.ph_pair{
            .{ .key = "watch", .value = notification.watch },
            .{ .key = "key", .value = ph.ph_key_text(notification.key) },
            .{ .key = "change", .value = changes[notification.change] },
            .{ .key = "initial", .value = if (notification.initial) "true" else "false" },
            .{ .key = "unknown", .value = if (notification.final_state_unknown) "true" else "false" },
            .{ .key = "before", .value = s.orNone(if (before == null) null else ph.ph_text(before, "/data/value"), "-") },
            .{ .key = "after", .value = s.orNone(ph.ph_after_field(batch, position, "/data/value"), "-") },
        };
        ph.ph_log(ph.PH_INFO, "observed", .{ .items = &fields, .count = fields.len });
    }
    return ph.ph_done();
}

export fn values(index: s.String, object: *ph.ph_object, result: *ph.ph_values) void {
    const words = ph.ph_text(object, "/data/words");
    if (!ph.ph_equal(index, "byWord") or words == null) return;
    var iterator = std.mem.tokenizeScalar(u8, std.mem.span(words), ' ');
    while (iterator.next()) |word| {
        if (std.mem.eql(u8, word, "trap")) @panic("asked to trap");
        ph.ph_value(result, ph.ph_copy(word.ptr, word.len));
    }
}
