//! Made by build.rs.

use super::Files;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
