//! Creating or updating an object from its desired state.

use serde_json::Value;

use super::{Client, manifest};
use crate::{ApiError, Resource};

/// What [`Client::create_or_update`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object did not exist and was created.
    Created,
    /// The object existed, differed and was updated.
    Updated,
    /// The object was already as desired; no request was sent.
    Unchanged,
}

impl Client<'_> {
    /// Creates or updates an object, as controller-runtime's `CreateOrUpdate` does, and returns it as stored.
    ///
    /// `present` is the object that the cache holds; when it is `None`, the object is created from `absent`. `mutate` then brings the
    /// object to its desired state. Nothing is sent when `mutate` changes nothing in a present object.
    ///
    /// # Errors
    /// As [`create`](Self::create) or [`update`](Self::update).
    pub fn create_or_update<K: Resource>(
        &self,
        present: Option<K>,
        absent: impl FnOnce() -> K,
        mutate: impl FnOnce(&mut K),
    ) -> Result<(K, Change), ApiError> {
        match plan(present, absent, mutate)? {
            (object, Plan::Nothing) => Ok((object, Change::Unchanged)),
            (_, Plan::Create(manifest)) => {
                Ok((self.answer(self.untyped().create(&manifest, "")?)?, Change::Created))
            }
            (_, Plan::Update(manifest)) => {
                Ok((self.answer(self.untyped().update(&manifest, "")?)?, Change::Updated))
            }
        }
    }
}

#[derive(Debug, PartialEq)]
enum Plan {
    Create(Value),
    Update(Value),
    Nothing,
}

fn plan<K: Resource>(
    present: Option<K>,
    absent: impl FnOnce() -> K,
    mutate: impl FnOnce(&mut K),
) -> Result<(K, Plan), ApiError> {
    let before = present.as_ref().map(manifest).transpose()?;
    let mut object = present.unwrap_or_else(absent);
    mutate(&mut object);
    let after = manifest(&object)?;
    let plan = match before {
        None => Plan::Create(after),
        Some(before) if before == after => Plan::Nothing,
        Some(_) => Plan::Update(after),
    };
    Ok((object, plan))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn mk_config_map(value: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("settings".into());
        map.data = Some([("mode".to_owned(), value.to_owned())].into());
        map
    }

    fn set_fast(map: &mut ConfigMap) {
        map.data = Some([("mode".to_owned(), "fast".to_owned())].into());
    }

    #[test]
    fn an_absent_object_is_created_from_the_initial_value() {
        let (_, plan) = plan(None, || mk_config_map("none"), set_fast).unwrap();
        assert_eq!(plan, Plan::Create(manifest(&mk_config_map("fast")).unwrap()));
    }

    #[test]
    fn a_different_object_is_updated() {
        let never = || unreachable!("the object exists");
        let (_, plan) = plan(Some(mk_config_map("slow")), never, set_fast).unwrap();
        assert_eq!(plan, Plan::Update(manifest(&mk_config_map("fast")).unwrap()));
    }

    #[test]
    fn an_object_in_the_desired_state_costs_no_request() {
        let never = || unreachable!("the object exists");
        let (object, plan) = plan(Some(mk_config_map("fast")), never, set_fast).unwrap();
        assert_eq!(plan, Plan::Nothing);
        assert_eq!(object, mk_config_map("fast"));
    }
}
