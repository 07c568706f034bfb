//! A typed handle for a watch, so that its name is written once.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use crate::Object;

/// A watch by its name, with the Rust type of its objects.
///
/// Declare one constant per watch and use it wherever the watch is meant: a misspelled name does not compile, and reads have the right
/// type.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::Secret;
/// use pilothouse_sdk::{Context, DecodeError, Plugin, Request, Watch, WatchRef};
///
/// const DEPLOYMENTS: WatchRef<Deployment> = WatchRef::new("deployments");
/// const SECRETS: WatchRef<Secret> = WatchRef::new("secrets");
///
/// fn descriptor() -> Plugin {
///     Plugin::new("example", "0.1.0").watch(Watch::of(DEPLOYMENTS).triggers_itself()).owns(SECRETS)
/// }
///
/// fn replicas(ctx: &Context<'_>, request: &Request) -> Result<Option<i32>, DecodeError> {
///     let deployment = ctx.cache(DEPLOYMENTS).get(&request.key)?;
///     Ok(deployment.and_then(|deployment| deployment.spec.replicas))
/// }
/// ```
pub struct WatchRef<K> {
    name: &'static str,
    object_type: PhantomData<fn() -> K>,
}

impl<K> WatchRef<K> {
    /// A reference to the watch of this name; [`Watch::of`](crate::Watch::of) declares the watch.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, object_type: PhantomData }
    }

    /// The name of the watch in the descriptor.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The same watch with its objects read as handles: `ctx.cache(PODS.untyped())` yields [`Object`]s, which are not copied.
    #[must_use]
    pub const fn untyped(self) -> WatchRef<Object> {
        WatchRef::new(self.name)
    }
}

// Derived, these would require `K` to implement the traits.
impl<K> Clone for WatchRef<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for WatchRef<K> {}

impl<K> fmt::Debug for WatchRef<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WatchRef({:?})", self.name)
    }
}

impl<K> fmt::Display for WatchRef<K> {
    /// The name of the watch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<K> From<WatchRef<K>> for String {
    fn from(watch: WatchRef<K>) -> Self {
        watch.name.to_owned()
    }
}

impl<K> From<WatchRef<K>> for Cow<'_, str> {
    fn from(watch: WatchRef<K>) -> Self {
        Cow::Borrowed(watch.name)
    }
}

/// What names a watch whose objects are read as `T`: a [`WatchRef<T>`], or a string where the name is known only at run time.
pub trait WatchName<'n, T>: Into<Cow<'n, str>> {}

impl<T> WatchName<'_, T> for WatchRef<T> {}
impl<'n, T> WatchName<'n, T> for &'n str {}
impl<'n, T> WatchName<'n, T> for &'n String {}
impl<T> WatchName<'_, T> for String {}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    const CONFIG_MAPS: WatchRef<ConfigMap> = WatchRef::new("configmaps");

    #[test]
    fn a_reference_is_its_name_everywhere() {
        assert_eq!(CONFIG_MAPS.to_string(), "configmaps");
        assert_eq!(String::from(CONFIG_MAPS), "configmaps");
        assert_eq!(CONFIG_MAPS.untyped().name(), "configmaps");
        assert_eq!(format!("{CONFIG_MAPS:?}"), "WatchRef(\"configmaps\")");
    }
}
