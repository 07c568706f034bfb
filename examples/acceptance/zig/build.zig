const std = @import("std");

/// The folder of the C SDK.
const sdk = "../../../guest-sdk/c";

const flags = [_][]const u8{ "-std=c11", "-ffunction-sections", "-fdata-sections" };

pub fn build(b: *std.Build) void {
    const target = b.resolveTargetQuery(.{ .cpu_arch = .wasm32, .os_tag = .wasi });
    const header = b.addTranslateC(.{
        .root_source_file = b.path(sdk ++ "/pilothouse.h"),
        .target = target,
        .optimize = .small,
    });
    const module = b.createModule(.{
        .root_source_file = b.path("src/plugin.zig"),
        .target = target,
        .optimize = .small,
        .link_libc = true,
    });
    module.addImport("pilothouse", header.createModule());
    module.addIncludePath(b.path(sdk));
    module.addCSourceFiles(.{ .files = &.{"src/exports.c"}, .flags = &flags });
    module.addCSourceFiles(.{
        .root = b.path(sdk),
        .files = &.{ "pilothouse.c", "bindings/bindings.c" },
        .flags = &flags,
    });
    const plugin = b.addExecutable(.{ .name = "plugin", .root_module = module });
    // A plugin has no `main`: the host calls its exports.
    plugin.wasi_exec_model = .reactor;
    // Each instance has a stack of its own.
    plugin.stack_size = 256 << 10;
    b.installArtifact(plugin);
}
