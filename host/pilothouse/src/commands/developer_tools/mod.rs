//! The commands for plugin authors: `dev`, `new`, `build`, `test`, `sim`, `sdk` and `abi`.

mod abi;
mod apply;
mod build;
#[cfg(feature = "simulation")]
mod build_simulations;
mod dev;
mod junit;
mod new;
mod rebuild;
mod sdk;
#[cfg(feature = "simulation")]
mod sim;
#[cfg(feature = "simulation")]
mod sim_recording;
mod simulation_files;
mod staged_plugin;
mod test;

use crate::CommandResult;
use crate::cli::developer_tools::DeveloperCommand;

pub(crate) async fn run(command: DeveloperCommand) -> CommandResult {
    match command {
        DeveloperCommand::Dev(flags) => dev::run(*flags).await,
        DeveloperCommand::New(flags) => new::run(&flags),
        DeveloperCommand::Build(flags) => build::run(flags).await,
        DeveloperCommand::Test(flags) => test::run(flags).await,
        #[cfg(feature = "simulation")]
        DeveloperCommand::Sim(flags) => sim::run(*flags).await,
        DeveloperCommand::Sdk(command) => sdk::run(&command),
        DeveloperCommand::Abi(flags) => {
            abi::run(&flags);
            Ok(())
        }
    }
}
