//! The three parsers agree: on the objects that they accept, and on the text that they refuse.

mod edited_members;
mod edited_metadata;
mod fast_path;
mod reader;
mod shared_text;
mod structure;
mod version_diff;
