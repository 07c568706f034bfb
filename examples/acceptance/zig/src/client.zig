//! Operations that send requests to the API server.

const ph = @import("pilothouse");
const s = @import("script.zig");

pub const operations = .{
    .{ "client-get", get },
    .{ "client-list", list },
    .{ "create", create },
    .{ "update", update },
    .{ "patch", patch },
    .{ "delete", delete },
    .{ "denied", denied },
};

fn kindOf(script: *const s.Script) ph.ph_type {
    return .{ .api_version = script.a, .kind = script.b };
}

fn keyOf(script: *const s.Script) ph.ph_key {
    return .{ .ns = script.c, .name = script.d };
}

fn nameOrError(code: ph.ph_code, object: ?*ph.ph_object) s.Answer {
    return if (code == ph.PH_OK) s.value(ph.ph_object_key(object).name) else s.apiError();
}

/// Returns the position of the name in the list, or 0.
fn position(names: []const s.String, name: s.String) c_uint {
    for (names, 0..) |known, index| {
        if (ph.ph_equal(known, name)) return @intCast(index);
    }
    return 0;
}

fn get(script: *const s.Script) s.Answer {
    var object: ?*ph.ph_object = null;
    const code = ph.ph_client_get(kindOf(script), keyOf(script), script.e, &object);
    if (code != ph.PH_OK) return s.apiError();
    return s.value(s.orNone(ph.ph_text(object, script.f), "absent"));
}

fn list(script: *const s.Script) s.Answer {
    var options: ph.ph_list_options = .{
        .ns = script.c,
        .label_selector = script.d,
        .field_selector = script.e,
        .limit = s.number(script.f),
        .cursor = "",
    };
    var pages: s.Joined = .{ .separator = " | " };
    while (true) {
        var page: ph.ph_page = undefined;
        if (ph.ph_client_list(kindOf(script), options, &page) != ph.PH_OK) return s.apiError();
        var keys: s.Joined = .{};
        keys.addKeys(page.items[0..page.count]);
        pages.add(keys.done());
        options.cursor = page.next;
        if (page.next[0] == 0) return s.value(pages.done());
    }
}

fn create(script: *const s.Script) s.Answer {
    var object: ?*ph.ph_object = null;
    return nameOrError(ph.ph_client_create(script.body, script.a, &object), object);
}

fn update(script: *const s.Script) s.Answer {
    var object: ?*ph.ph_object = null;
    return nameOrError(ph.ph_client_update(script.body, script.a, &object), object);
}

fn patch(script: *const s.Script) s.Answer {
    // In the order of `ph_patch_type`.
    const types = [_]s.String{ "json", "merge", "strategic", "apply", "apply-force" };
    var object: ?*ph.ph_object = null;
    const how = position(&types, script.e);
    return nameOrError(ph.ph_client_patch(kindOf(script), keyOf(script), how, script.body, script.f, &object), object);
}

fn delete(script: *const s.Script) s.Answer {
    // In the order of `ph_propagation`.
    const propagations = [_]s.String{ "background", "foreground", "orphan" };
    const code = ph.ph_client_delete(kindOf(script), keyOf(script), .{
        .propagation = position(&propagations, script.e),
        .uid = script.f,
        .resource_version = script.g,
    });
    return if (code == ph.PH_OK) s.value("deleted") else s.apiError();
}

fn denied(script: *const s.Script) s.Answer {
    const secret = ph.ph_format(
        \\{"apiVersion":"v1","kind":"Secret","metadata":{"name":"denied","namespace":%s}}
    , ph.ph_quote(script.request.key.ns));
    var object: ?*ph.ph_object = null;
    return nameOrError(ph.ph_client_create(secret, null, &object), object);
}
