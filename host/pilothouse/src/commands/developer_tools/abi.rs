//! `pilothouse abi`: prints the contract as a core module sees it.

use pilothouse_plugin::{AbiFormat, abi_text};

use crate::cli::developer_tools::{Abi, AbiForm};
use crate::output;

pub(super) fn run(flags: &Abi) {
    let format = match flags.format {
        AbiForm::Table => AbiFormat::Table,
        AbiForm::C => AbiFormat::CHeader,
    };
    output::print_line(abi_text(format).trim_end());
}
