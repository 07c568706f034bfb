//! The contract as a core module sees it: the signatures of its functions and the layout of its types in memory. Authors of plugins without
//! an SDK need both, and the loader needs the aliases of the functions. Everything is derived from the WIT files of this build.
//!
//! [`functions`] has the functions, [`flatten`] their parameters, [`names`] their aliases, and [`types`] the types that they use. [`table`] and
//! [`c_header`] render all of it.

mod c_header;
mod flatten;
mod functions;
mod names;
mod table;
#[cfg(test)]
mod tests;
mod types;

use wit_parser::{Resolve, SizeAlign, TypeId, WorldId};

pub(crate) use functions::CoreFunction;
pub(crate) use names::{ALIAS_MODULE, DEFAULT_MODULE, IDENTIFIER_PREFIX, POST_RETURN_PREFIX};

use crate::load;

/// A form in which [`abi_text`] returns the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbiFormat {
    /// A table for people.
    Table,
    /// A header for C99, C++ and what translates C headers.
    CHeader,
}

/// Returns the contract of this build as a core module sees it.
pub fn abi_text(format: AbiFormat) -> String {
    let contract = CoreContract::read().expect("the contract is part of this binary, and a test parses it");
    match format {
        AbiFormat::Table => contract.table(),
        AbiFormat::CHeader => contract.c_header(),
    }
}

/// The world with all imports and exports.
const WORLD: &str = "controller";

/// The functions and types of a world, as a core module sees them.
pub(crate) struct CoreContract {
    resolve: Resolve,
    sizes: SizeAlign,
    /// The package with its version.
    package: String,
    functions: Vec<CoreFunction>,
    /// Each type after the types that it contains.
    types: Vec<TypeId>,
}

impl CoreContract {
    /// Reads the contract of this build. An error is a bug.
    pub(crate) fn read() -> Result<Self, String> {
        let (resolve, package) = load::parse_contract()?;
        let world = resolve.select_world(&[package], Some(WORLD)).map_err(|error| format!("{error:#}"))?;
        Ok(Self::of(resolve, world))
    }

    fn of(resolve: Resolve, world: WorldId) -> Self {
        let mut sizes = SizeAlign::default();
        sizes.fill(&resolve);
        let package = resolve.worlds[world].package;
        let package = package.map_or_else(String::new, |id| resolve.packages[id].name.to_string());
        let functions = functions::of_world(&resolve, world);
        let types = types::of_world(&resolve, world);
        Self { resolve, sizes, package, functions, types }
    }

    /// Returns all imports, then all exports.
    pub(crate) fn functions(&self) -> &[CoreFunction] {
        &self.functions
    }
}
