//! What users get: the program, archives of it, and container images.
//!
//! Two builds of one commit with the same tools give the same bytes (docs/decisions/0024-image.md).

mod archive;
mod build;
mod chart;
mod checksums;
mod dist;
mod elf;
mod image;
mod metadata;
mod sbom;
mod sha256;
mod source;

pub(crate) use chart::{
    PackageChartArguments, PushChartArguments, package as package_chart,
    package_and_push as package_and_push_chart, push as push_chart,
};
pub(crate) use checksums::run as checksums;
pub(crate) use dist::{DistArguments, run as dist};
pub(crate) use image::{
    ImageArguments, ImageConfiguration, IndexArguments, assemble as assemble_image, run as image,
    run_index as image_index, unpack as unpack_image,
};
pub(crate) use sha256::hex as sha256;
