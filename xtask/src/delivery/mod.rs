//! What users get: the program, archives of it, and container images.
//!
//! Two builds of one commit with the same tools give the same bytes (docs/decisions/0024-image.md).

mod archive;
mod build;
mod checksums;
mod dist;
mod elf;
mod image;
mod metadata;
mod sbom;
mod sha256;
mod source;

pub(crate) use checksums::run as checksums;
pub(crate) use dist::{DistArguments, run as dist};
pub(crate) use image::{
    ImageArguments, ImageConfiguration, IndexArguments, assemble as assemble_image, run as image,
    run_index as image_index, unpack as unpack_image,
};
