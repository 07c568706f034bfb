const std = @import("std");

/// The folder of the C SDK. In a project of its own: a copy, such as `pilothouse new --lang c` writes into `sdk`.
const sdk = "../../guest-sdk/c";

const flags = [_][]const u8{ "-std=c11", "-ffunction-sections", "-fdata-sections" };

pub fn build(b: *std.Build) void {
    const wasm = b.resolveTargetQuery(.{ .cpu_arch = .wasm32, .os_tag = .wasi });
    const plugin = b.addExecutable(.{
        .name = "plugin",
        .root_module = module(b, wasm, .small, "src/plugin.zig", "pilothouse.h"),
    });
    plugin.root_module.addCSourceFiles(.{ .files = &.{"src/exports.c"}, .flags = &flags });
    plugin.root_module.addCSourceFiles(.{ .root = b.path(sdk), .files = &.{"bindings/bindings.c"}, .flags = &flags });
    // A plugin has no `main`: the host calls its exports.
    plugin.wasi_exec_model = .reactor;
    // Each instance has a stack of its own.
    plugin.stack_size = 256 << 10;
    b.installArtifact(plugin);

    // Native tests, with the SDK's in-memory host.
    const tests = b.addTest(.{
        .root_module = module(b, b.graph.host, .debug, "src/tests.zig", "testing/pilothouse_test.h"),
    });
    tests.root_module.addCSourceFiles(.{ .root = b.path(sdk), .files = &.{"testing/host.c"}, .flags = &flags });
    b.step("test", "Run the unit tests").dependOn(&b.addRunArtifact(tests).step);
}

/// Returns a Zig module that imports a header of the SDK as `pilothouse`, and links the SDK.
fn module(
    b: *std.Build,
    target: std.Build.ResolvedTarget,
    optimize: std.builtin.Optimize,
    root: []const u8,
    header: []const u8,
) *std.Build.Module {
    const translated = b.addTranslateC(.{
        .root_source_file = b.path(b.pathJoin(&.{ sdk, header })),
        .target = target,
        .optimize = optimize,
    });
    const result = b.createModule(.{
        .root_source_file = b.path(root),
        .target = target,
        .optimize = optimize,
        .link_libc = true,
    });
    result.addImport("pilothouse", translated.createModule());
    result.addIncludePath(b.path(sdk));
    result.addCSourceFiles(.{ .root = b.path(sdk), .files = &.{"pilothouse.c"}, .flags = &flags });
    return result;
}
