//! `pilothouse build`: builds a project into a plugin.

use crate::build::{Destination, Progress, build};
use crate::cli::developer_tools::Build;
use crate::{CommandResult, output, shutdown};

pub(super) async fn run(flags: Build) -> CommandResult {
    let stop = shutdown::on_signal()?;
    let destination =
        flags.output.map_or_else(|| Destination::Folder(flags.folder.clone()), Destination::File);
    let built = build(&flags.folder, &destination, &Progress::on_stderr(), &stop).await?;
    for warning in &built.warnings {
        output::print_line(format_args!("warning   {warning}"));
    }
    let (builder, size) = (built.builder, built.size.div_ceil(1024));
    output::print_line(format_args!("{}  {size} KiB, from {builder}", built.file.display()));
    Ok(())
}
