//! A script: a ConfigMap with an operation and its arguments.

const std = @import("std");
const ph = @import("pilothouse");

/// A string of the SDK, which ends in NUL. Null means "none", such as a missing label.
pub const String = [*c]const u8;

pub const Script = struct {
    request: *const ph.ph_request,
    object: *ph.ph_object,
    op: String,
    /// `data.a` … `data.g` and `data.body`, "" when missing.
    a: String,
    b: String,
    c: String,
    d: String,
    e: String,
    f: String,
    g: String,
    body: String,

    pub fn read(request: *const ph.ph_request, object: *ph.ph_object) Script {
        var script: Script = undefined;
        script.request = request;
        script.object = object;
        inline for (.{ "op", "a", "b", "c", "d", "e", "f", "g", "body" }) |name| {
            @field(script, name) = orNone(ph.ph_text(object, "/data/" ++ name), "");
        }
        return script;
    }
};

/// The result of an operation: a value that is logged, or an outcome without a value.
pub const Answer = union(enum) {
    value: String,
    silent: ph.ph_outcome,
};

pub const Operation = *const fn (script: *const Script) Answer;

pub fn value(text: String) Answer {
    return .{ .value = text };
}

pub fn orNone(text: String, none: String) String {
    return if (text == null) none else text;
}

/// Returns the number that the text has, or 0.
pub fn number(text: String) u32 {
    return std.fmt.parseInt(u32, std.mem.span(text), 10) catch 0;
}

/// Logs the result of an operation.
pub fn logResult(op: String, text: String) void {
    const fields = [_]ph.ph_pair{ .{ .key = "op", .value = op }, .{ .key = "value", .value = text } };
    ph.ph_log(ph.PH_INFO, "result", .{ .items = &fields, .count = fields.len });
}

/// Returns the last error of the client in the form that the suite expects.
pub fn apiError() Answer {
    const failure: *const ph.ph_error = ph.ph_last_error();
    return value(switch (failure.code) {
        ph.PH_NOT_FOUND => "not-found",
        ph.PH_ALREADY_EXISTS => "already-exists",
        ph.PH_CONFLICT => "conflict",
        ph.PH_INVALID => ph.ph_format("invalid:%s", if (failure.cause_count > 0) failure.causes[0].field else @as(String, "")),
        ph.PH_FORBIDDEN => "forbidden",
        ph.PH_DENIED => ph.ph_format("denied:%s %s", failure.rule.verbs[0], failure.rule.resources[0]),
        ph.PH_TOO_MANY_REQUESTS => ph.ph_format("too-many-requests:%u", failure.retry_after),
        ph.PH_UNAVAILABLE => "unavailable",
        else => ph.ph_format("other:%u", @as(c_uint, failure.status)),
    });
}

/// A list in one text.
pub const Joined = struct {
    buffer: ph.ph_buffer = .{},
    separator: String = " ",
    count: usize = 0,

    pub fn add(self: *Joined, text: String) void {
        if (self.count > 0) ph.ph_append_text(&self.buffer, self.separator);
        ph.ph_append_text(&self.buffer, text);
        self.count += 1;
    }

    pub fn addKeys(self: *Joined, objects: []const ?*ph.ph_object) void {
        for (objects) |object| self.add(ph.ph_key_text(ph.ph_object_key(object)));
    }

    pub fn done(self: *Joined) String {
        return ph.ph_buffer_text(&self.buffer);
    }
};
