//! `pilothouse show`: opens a support bundle in the status page.

use std::fs::File;
use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr};

use pilothouse_controller::printable;

use super::listen;
use crate::bundle::BundleContents;
use crate::cli::Show;
use crate::{CommandError, CommandResult, http, output, shutdown};

pub(crate) async fn run(flags: Show) -> CommandResult {
    let path = flags.bundle.display();
    let file = File::open(&flags.bundle).map_err(|error| {
        CommandError::Usage(format!(
            "cannot read {path}: {error}; name a file that `pilothouse bundle` has written"
        ))
    })?;
    let contents = BundleContents::read(BufReader::new(file)).map_err(|problem| {
        CommandError::Failure(format!(
            "cannot show {path}: {problem}; make another one with `pilothouse bundle`"
        ))
    })?;
    for problem in &contents.problems {
        tracing::warn!("{path}: not shown: {}", printable(problem));
    }
    let shutdown = shutdown::on_signal()?;
    // The bundle may be for its reader only.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, flags.listen_port));
    let listener = listen::bind("--listen-port", address).await?;
    let address = listen::local_address(&listener)?;
    output::print_line(format_args!("status page  http://{address}"));
    http::serve_bundle(listener, contents, shutdown).await;
    Ok(())
}
