//! A host without objects, for plugins that only describe themselves.

use std::time::Duration;

use async_trait::async_trait;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, ListOptions, LivePage, LogLine,
    MetricSample, Misuse, ObjectType, Patch, PluginEvent,
};

pub(crate) struct MuteHost;

fn unknown(watch: &str) -> Misuse {
    Misuse::UnknownWatch { watch: watch.to_owned(), declared: Vec::new() }
}

fn unavailable<T>() -> Result<T, ApiError> {
    Err(ApiError::Unavailable("there is no server".to_owned()))
}

#[async_trait]
impl Host for MuteHost {
    fn config(&self) -> &str {
        "{}"
    }

    fn cache_get(&self, _: &Call, watch: &str, _: &ObjectKey) -> Result<Option<Object>, Misuse> {
        Err(unknown(watch))
    }

    fn cache_list(&self, _: &Call, watch: &str, _: &CacheFilter) -> Result<CachePage, Misuse> {
        Err(unknown(watch))
    }

    fn cache_by_index(&self, _: &Call, watch: &str, _: &str, _: &str) -> Result<Vec<Object>, Misuse> {
        Err(unknown(watch))
    }

    fn cache_index_values(&self, _: &Call, watch: &str, _: &str) -> Result<Vec<String>, Misuse> {
        Err(unknown(watch))
    }

    fn cache_has_synced(&self, _: &Call, watch: &str) -> Result<bool, Misuse> {
        Err(unknown(watch))
    }

    async fn client_get(&self, _: &Call, _: &ObjectType, _: &ObjectKey, _: &str) -> Result<Object, ApiError> {
        unavailable()
    }

    async fn client_list(&self, _: &Call, _: &ObjectType, _: &ListOptions) -> Result<LivePage, ApiError> {
        unavailable()
    }

    async fn client_create(&self, _: &Call, _: String, _: &str) -> Result<Object, ApiError> {
        unavailable()
    }

    async fn client_update(&self, _: &Call, _: String, _: &str) -> Result<Object, ApiError> {
        unavailable()
    }

    async fn client_patch(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: Patch,
        _: &str,
    ) -> Result<Object, ApiError> {
        unavailable()
    }

    async fn client_delete(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: &DeleteOptions,
    ) -> Result<(), ApiError> {
        unavailable()
    }

    fn queue_add(&self, _: &Call, watch: &str, _: ObjectKey) -> Result<(), Misuse> {
        Err(unknown(watch))
    }

    fn queue_add_after(&self, _: &Call, watch: &str, _: ObjectKey, _: Duration) -> Result<(), Misuse> {
        Err(unknown(watch))
    }

    fn publish_event(&self, _: &Call, _: PluginEvent<'_>) {}

    fn log(&self, _: &Call, _: LogLine<'_>) {}

    fn metric(&self, _: &Call, _: MetricSample<'_>) {}

    fn wall_clock(&self) -> Duration {
        Duration::from_secs(1_800_000_000)
    }

    fn monotonic_clock(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn random(&self, buffer: &mut [u8]) {
        buffer.fill(4);
    }
}
