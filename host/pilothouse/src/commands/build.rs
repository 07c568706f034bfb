//! `pilothouse build`: a project becomes a plugin's file.

use crate::build::{Output, Progress, build};
use crate::cli::Build;
use crate::{Outcome, output, shutdown};

pub(crate) async fn run(flags: Build) -> Outcome {
    let stop = shutdown::on_signal()?;
    let place = flags.output.map_or_else(|| Output::Folder(flags.folder.clone()), Output::File);
    let built = build(&flags.folder, &place, &Progress::on_stderr(), &stop).await?;
    for warning in &built.warnings {
        output::line(format_args!("warning   {warning}"));
    }
    let (language, size) = (built.language.name(), built.size.div_ceil(1024));
    output::line(format_args!("{}  {size} KiB, from {language}", built.file.display()));
    Ok(())
}
