//! Resource lists that several hosts share.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_model::hash::HashMap;

use super::ServedResources;

/// The last resource list of each API version, with what it means. Hosts that share them parse a list only if it has changed. For simulations,
/// which start thousands of hosts on servers with the same lists. Cheap to clone; clones share the lists.
#[derive(Clone, Debug, Default)]
pub struct ResourceLists(Arc<Mutex<HashMap<String, ParsedList>>>);

/// The text of a list, and what it means.
type ParsedList = (Bytes, Arc<ServedResources>);

impl ResourceLists {
    /// Returns what the list of an API version means. `parse` reads it if another host has not done so.
    pub(super) fn parsed<E>(
        &self,
        api_version: &str,
        body: &Bytes,
        parse: impl FnOnce() -> Result<Arc<ServedResources>, E>,
    ) -> Result<Arc<ServedResources>, E> {
        let mut lists = self.0.lock();
        if let Some((known, served)) = lists.get(api_version)
            && known == body
        {
            return Ok(Arc::clone(served));
        }
        let served = parse()?;
        lists.insert(api_version.to_owned(), (body.clone(), Arc::clone(&served)));
        Ok(served)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_list_is_parsed_again_if_it_changes() {
        let lists = ResourceLists::default();
        let parsed = Cell::new(0);
        let read = |api_version: &str, body: &'static str| {
            let parse = || {
                parsed.set(parsed.get() + 1);
                if body == "bad" { Err(()) } else { Ok(Arc::new(ServedResources::default())) }
            };
            lists.clone().parsed(api_version, &Bytes::from_static(body.as_bytes()), parse).is_ok()
        };
        assert!(read("v1", "a") && read("v1", "a"));
        assert_eq!(parsed.get(), 1);
        assert!(read("apps/v1", "a") && !read("v1", "bad") && read("v1", "a"));
        assert_eq!(parsed.get(), 3);
        assert!(read("v1", "b") && read("v1", "a"));
        assert_eq!(parsed.get(), 5);
    }
}
