use serde_json::Value;

use super::{manifest, parsed, untyped};
use crate::{ApiError, Resource};

/// What [`create_or_update`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was not there.
    Created,
    /// It was there and different.
    Updated,
    /// It was there as wanted: no request was made.
    Unchanged,
}

/// Makes an object as `mutate` wants it, as controller-runtime's `CreateOrUpdate` does: `present` is what the cache has;
/// where it has nothing, `absent` (a name and a namespace, mostly) is the start. Nothing is sent when `mutate` changes
/// nothing.
///
/// # Errors
/// As [`create`](super::create) or [`update`](super::update).
pub fn create_or_update<K: Resource>(
    present: Option<K>,
    absent: impl FnOnce() -> K,
    mutate: impl FnOnce(&mut K),
) -> Result<(K, Change), ApiError> {
    match plan(present, absent, mutate)? {
        (object, Plan::Nothing) => Ok((object, Change::Unchanged)),
        (_, Plan::Create(manifest)) => Ok((parsed(&untyped::create(&manifest, "")?)?, Change::Created)),
        (_, Plan::Update(manifest)) => Ok((parsed(&untyped::update(&manifest, "")?)?, Change::Updated)),
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

    fn wants_fast(map: &mut ConfigMap) {
        map.data = Some([("mode".to_owned(), "fast".to_owned())].into());
    }

    #[test]
    fn what_is_absent_is_created_from_the_start_value() {
        let (_, plan) = plan(None, || mk_config_map("none"), wants_fast).unwrap();
        assert_eq!(plan, Plan::Create(manifest(&mk_config_map("fast")).unwrap()));
    }

    #[test]
    fn what_differs_is_updated() {
        let never = || unreachable!("there is an object");
        let (_, plan) = plan(Some(mk_config_map("slow")), never, wants_fast).unwrap();
        assert_eq!(plan, Plan::Update(manifest(&mk_config_map("fast")).unwrap()));
    }

    #[test]
    fn what_is_as_wanted_costs_no_request() {
        let never = || unreachable!("there is an object");
        let (object, plan) = plan(Some(mk_config_map("fast")), never, wants_fast).unwrap();
        assert_eq!(plan, Plan::Nothing);
        assert_eq!(object, mk_config_map("fast"));
    }
}
