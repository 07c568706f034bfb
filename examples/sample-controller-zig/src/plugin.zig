//! A controller that runs a Deployment for every Foo: the sample controller of the Kubernetes documentation, as a plugin in Zig.
//!
//! A Foo names a Deployment and its number of replicas. The plugin creates the Deployment, reverts changes to it, recreates it when it
//! is deleted, and reports the number of available replicas.

/// The C SDK. What its functions return is freed when the exported function returns.
const ph = @import("pilothouse");

/// The image that every Deployment runs. Change it and build again: the new version of the plugin rolls it out to every Foo.
const image = "nginx:1.29";

/// The names of the watches.
const foos = "foos";
const deployments = "deployments";

/// A string of the SDK, which ends in NUL. Null means "none", such as a missing label.
const String = [*c]const u8;

const plugin: ph.ph_plugin = .{
    .name = "sample-controller-zig",
    .version = "0.1.0",
    .summary = "Runs a Deployment for every Foo",
    .crds = &[_]String{ @embedFile("crd.json"), null },
    .watches = &[_]ph.ph_watch{
        .{
            .name = foos,
            .api_version = "samplecontroller.k8s.io/v1alpha1",
            .kind = "Foo",
            .trigger = .{ .kind = ph.PH_SELF },
            // Ignores changes of a Foo's status, which this plugin writes itself.
            .predicate = "generationChanged()",
        },
        .{
            .name = deployments,
            .api_version = "apps/v1",
            .kind = "Deployment",
            .trigger = .{ .kind = ph.PH_OWNER, .watch = foos },
        },
        .{},
    },
    .writes = &[_]ph.ph_rule{
        .{
            .api_groups = &[_]String{ "apps", null },
            .resources = &[_]String{ "deployments", null },
            .verbs = &[_]String{ "create", "patch", null },
        },
        .{
            .api_groups = &[_]String{ "samplecontroller.k8s.io", null },
            .resources = &[_]String{ "foos/status", null },
            .verbs = &[_]String{ "patch", null },
        },
        .{},
    },
};

pub export fn describe(_: String) ph.ph_description {
    return ph.ph_describe_as(&plugin);
}

/// Brings the Deployment of one Foo to its desired state.
pub export fn reconcile(request: *const ph.ph_request) ph.ph_outcome {
    const foo = ph.ph_cache_get(foos, request.key) orelse return ph.ph_done();
    // The garbage collector deletes the Deployment of a deleted Foo.
    if (ph.ph_object_deletion_timestamp(foo) != null) return ph.ph_done();

    const key: ph.ph_key = .{ .ns = request.key.ns, .name = ph.ph_text(foo, "/spec/deploymentName") };
    const present = ph.ph_cache_get(deployments, key);
    if (present != null and !ph.ph_is_controlled_by(present, foo)) {
        const note = ph.ph_format(
            "Deployment %s already exists and is not managed by Foo %s",
            ph.ph_key_text(key),
            ph.ph_key_text(request.key),
        );
        ph.ph_event_warning(foo, "ErrResourceExists", "Sync", "%s", note);
        return ph.ph_retry("%s", note);
    }

    var change: ph.ph_change_made = undefined;
    var deployment: ?*ph.ph_object = null;
    const written = ph.ph_create_or_update(present, deploymentFor(foo, key, present), &change, &deployment);
    if (written != ph.PH_OK) return ph.ph_checked(written, "write the Deployment");

    const available = ph.ph_integer(deployment, "/status/availableReplicas", 0);
    const reported = ph.ph_integer(foo, "/status/availableReplicas", -1);
    if (available != reported) {
        const code = reportAvailable(request.key, available);
        if (code != ph.PH_OK) return ph.ph_checked(code, "update the status");
    }
    if (change != ph.PH_UNCHANGED or available != reported) {
        ph.ph_info("synced %s", ph.ph_key_text(key));
        ph.ph_event_normal(foo, "Synced", "Sync", "Foo synced successfully");
    }
    return ph.ph_done();
}

/// Returns the desired Deployment of a Foo. Without `spec.replicas`, an existing Deployment keeps its number of replicas.
fn deploymentFor(foo: *ph.ph_object, key: ph.ph_key, present: ?*ph.ph_object) String {
    var replicas = ph.ph_field(foo, "/spec/replicas");
    if (replicas == null and present != null) replicas = ph.ph_field(present, "/spec/replicas");
    if (replicas == null) replicas = "1";
    const labels = ph.ph_format(
        \\{"app": "nginx", "controller": %s}
    , ph.ph_quote(ph.ph_object_key(foo).name));
    return ph.ph_format(
        \\{
        \\  "apiVersion": "apps/v1",
        \\  "kind": "Deployment",
        \\  "metadata": {"name": %s, "namespace": %s, "ownerReferences": [%s]},
        \\  "spec": {
        \\    "replicas": %s,
        \\    "selector": {"matchLabels": %s},
        \\    "template": {
        \\      "metadata": {"labels": %s},
        \\      "spec": {"containers": [{"name": "nginx", "image": %s}]}
        \\    }
        \\  }
        \\}
    , ph.ph_quote(key.name), ph.ph_quote(key.ns), ph.ph_owner_reference(foo), replicas, labels, labels, ph.ph_quote(image));
}

/// Writes the number of available replicas into the status of a Foo.
fn reportAvailable(foo: ph.ph_key, available: c_longlong) ph.ph_code {
    const body = ph.ph_format(
        \\{"status": {"availableReplicas": %lld}}
    , available);
    const kind: ph.ph_type = .{ .api_version = "samplecontroller.k8s.io/v1alpha1", .kind = "Foo" };
    return ph.ph_client_patch(kind, foo, ph.PH_MERGE_PATCH, body, "status", null);
}
