//! Operations that read the cache.

const std = @import("std");
const ph = @import("pilothouse");
const s = @import("script.zig");

pub const operations = .{
    .{ "get", get },
    .{ "json-length", jsonLength },
    .{ "object", object },
    .{ "list", list },
    .{ "list-fields", listFields },
    .{ "by-index", byIndex },
    .{ "index-keys", indexKeys },
    .{ "index-values", indexValues },
    .{ "has-synced", hasSynced },
    .{ "own-write", ownWrite },
};

fn find(script: *const s.Script) ?*ph.ph_object {
    return ph.ph_cache_get(script.a, .{ .ns = script.b, .name = script.c });
}

fn get(script: *const s.Script) s.Answer {
    const found = find(script) orelse return s.value("none");
    return s.value(s.orNone(ph.ph_text(found, script.d), "absent"));
}

fn jsonLength(script: *const s.Script) s.Answer {
    const found = find(script) orelse return s.value("none");
    return s.value(ph.ph_format("%zu", std.mem.len(ph.ph_object_json(found))));
}

fn set(text: s.String, unset: s.String) s.String {
    return if (text != null and text[0] != 0) "set" else unset;
}

fn joined(values: []const s.String) s.String {
    var text: s.Joined = .{ .separator = "," };
    for (values) |value| text.add(s.orNone(value, "-"));
    return text.done();
}

fn object(script: *const s.Script) s.Answer {
    const found = find(script) orelse return s.value("none");
    var labels: s.Joined = .{ .separator = "," };
    const pairs = ph.ph_object_labels(found);
    for (pairs.items[0..pairs.count]) |pair| labels.add(ph.ph_format("%s=%s", pair.key, pair.value));
    var owner: ph.ph_owner = undefined;
    const several = [_]s.String{ "/data/value", "/data/nothing", "/kind", null };

    var lines: s.Joined = .{ .separator = "\n" };
    lines.add(ph.ph_format("key=%s", ph.ph_key_text(ph.ph_object_key(found))));
    lines.add(ph.ph_format("api-version=%s", ph.ph_object_api_version(found)));
    lines.add(ph.ph_format("kind=%s", ph.ph_object_kind(found)));
    lines.add(ph.ph_format("uid=%s", set(ph.ph_object_uid(found), "")));
    lines.add(ph.ph_format("resource-version=%s", set(ph.ph_object_resource_version(found), "")));
    lines.add(ph.ph_format("generation=%u", ph.ph_object_generation(found)));
    lines.add(ph.ph_format("labels=%s", labels.done()));
    lines.add(ph.ph_format("label=%s", s.orNone(ph.ph_object_label(found, "tier"), "-")));
    lines.add(ph.ph_format("annotation=%s", s.orNone(ph.ph_object_annotation(found, "note"), "-")));
    lines.add(ph.ph_format("deletion-timestamp=%s", set(ph.ph_object_deletion_timestamp(found), "-")));
    lines.add(if (ph.ph_object_controller(found, &owner))
        ph.ph_format("controller=%s/%s", owner.kind, owner.name)
    else
        @as(s.String, "controller=-"));
    lines.add(ph.ph_format("field=%s", s.orNone(ph.ph_field(found, "/data/value"), "-")));
    lines.add(ph.ph_format("text=%s", s.orNone(ph.ph_text(found, "/data/value"), "-")));
    lines.add(ph.ph_format("fields=%s", joined(ph.ph_fields(found, &several)[0..3])));
    lines.add(ph.ph_format("texts=%s", joined(ph.ph_texts(found, &several)[0..3])));
    return s.value(lines.done());
}

fn list(script: *const s.Script) s.Answer {
    var filter: ph.ph_filter = .{ .ns = script.b, .label_selector = script.c, .limit = s.number(script.d), .cursor = "" };
    var pages: s.Joined = .{ .separator = " | " };
    while (true) {
        const page = ph.ph_cache_list(script.a, filter);
        var keys: s.Joined = .{};
        keys.addKeys(page.items[0..page.count]);
        pages.add(keys.done());
        filter.cursor = page.next;
        if (page.next[0] == 0) return s.value(pages.done());
    }
}

fn listFields(script: *const s.Script) s.Answer {
    const pointers = [_]s.String{ script.d, null };
    const rows = ph.ph_cache_fields(script.a, .{ .ns = script.b, .label_selector = script.c }, &pointers);
    var text: s.Joined = .{};
    for (rows.items[0..rows.count]) |row| {
        text.add(ph.ph_format("%s=%s", ph.ph_key_text(row.key), s.orNone(row.values[0], "-")));
    }
    return s.value(text.done());
}

fn byIndex(script: *const s.Script) s.Answer {
    const objects = ph.ph_cache_by_index(script.a, script.b, script.c);
    var keys: s.Joined = .{};
    keys.addKeys(objects.items[0..objects.count]);
    return s.value(keys.done());
}

fn indexKeys(script: *const s.Script) s.Answer {
    const keys = ph.ph_cache_index_keys(script.a, script.b, script.c);
    var text: s.Joined = .{};
    for (keys.items[0..keys.count]) |key| text.add(ph.ph_key_text(key));
    return s.value(text.done());
}

fn indexValues(script: *const s.Script) s.Answer {
    const values = ph.ph_cache_index_values(script.a, script.b);
    var text: s.Joined = .{};
    for (values.items[0..values.count]) |value| text.add(value);
    return s.value(text.done());
}

fn hasSynced(script: *const s.Script) s.Answer {
    return s.value(if (ph.ph_cache_has_synced(script.a)) "true" else "false");
}

fn ownWrite(script: *const s.Script) s.Answer {
    const key: ph.ph_key = .{ .ns = script.request.key.ns, .name = script.a };
    const body = ph.ph_format(
        \\{"data":{"value":%s}}
    , ph.ph_quote(script.b));
    const map: ph.ph_type = .{ .api_version = "v1", .kind = "ConfigMap" };
    if (ph.ph_client_patch(map, key, ph.PH_MERGE_PATCH, body, null, null) != ph.PH_OK) return s.apiError();
    const item = ph.ph_cache_get("items", key) orelse return s.value("none");
    return s.value(s.orNone(ph.ph_text(item, "/data/value"), "absent"));
}
