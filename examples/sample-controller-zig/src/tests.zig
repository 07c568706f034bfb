//! Unit tests, which run natively: `zig build test`.

const std = @import("std");
const ph = @import("pilothouse");
const plugin = @import("plugin.zig");

const key: ph.ph_key = .{ .ns = "default", .name = "example" };
const web: ph.ph_key = .{ .ns = "default", .name = "web" };
const deployment_type: ph.ph_type = .{ .api_version = "apps/v1", .kind = "Deployment" };

fn begin() void {
    ph.ph_test_begin();
    ph.ph_test_plugin(plugin.describe);
    _ = ph.ph_test_put(
        \\{"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
        \\ "metadata": {"namespace": "default", "name": "example", "uid": "u1"},
        \\ "spec": {"deploymentName": "web", "replicas": 2}}
    );
}

fn reconcile() ph.ph_outcome {
    return plugin.reconcile(&.{ .watch = "foos", .key = key });
}

/// Returns the text at a pointer of the stored Deployment.
fn deployed(pointer: [*c]const u8) []const u8 {
    return std.mem.span(ph.ph_json_text_at(ph.ph_test_stored(deployment_type, web), pointer));
}

test "a Foo gets a Deployment that it controls" {
    begin();
    try std.testing.expect(reconcile().kind == ph.PH_OUTCOME_DONE);
    try std.testing.expectEqualStrings("2", deployed("/spec/replicas"));
    try std.testing.expectEqualStrings("u1", deployed("/metadata/ownerReferences/0/uid"));

    const writes = "create apps/v1 Deployment default/web\npatch samplecontroller.k8s.io/v1alpha1 Foo default/example status\n";
    try std.testing.expectEqualStrings(writes, std.mem.span(ph.ph_test_writes()));
    try std.testing.expect(reconcile().kind == ph.PH_OUTCOME_DONE);
    try std.testing.expectEqualStrings(writes, std.mem.span(ph.ph_test_writes()));
}

test "changed replicas are reverted" {
    begin();
    _ = ph.ph_test_put(
        \\{"apiVersion": "apps/v1", "kind": "Deployment",
        \\ "metadata": {"namespace": "default", "name": "web", "ownerReferences": [{"apiVersion": "samplecontroller.k8s.io/v1alpha1",
        \\   "kind": "Foo", "name": "example", "uid": "u1", "controller": true}]},
        \\ "spec": {"replicas": 7, "paused": true}}
    );
    try std.testing.expect(reconcile().kind == ph.PH_OUTCOME_DONE);
    try std.testing.expectEqualStrings("2", deployed("/spec/replicas"));
    // Fields that the Foo does not determine stay as they are.
    try std.testing.expectEqualStrings("true", deployed("/spec/paused"));
}

test "a Deployment of another owner is not changed" {
    begin();
    _ = ph.ph_test_put(
        \\{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "default", "name": "web"}}
    );
    try std.testing.expect(reconcile().kind == ph.PH_OUTCOME_RETRY);
    try std.testing.expectEqualStrings("", std.mem.span(ph.ph_test_writes()));
}
