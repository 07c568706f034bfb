//! A host that holds one script, and answers at once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{
    ApiError, CacheFilter, CachePage, Call, DeleteOptions, Host, ListOptions, LivePage, LogLine,
    MetricSample, Misuse, ObjectType, Patch, PluginEvent,
};

/// Everything that a guest sees here: one ConfigMap, and no server.
pub(crate) struct OneScript(pub(crate) Object);

fn no_server() -> ApiError {
    ApiError::Unavailable("there is no server in this benchmark".into())
}

#[async_trait]
impl Host for OneScript {
    fn config(&self) -> &str {
        "{}"
    }

    fn cache_get(&self, _: &Call, _: &str, key: &ObjectKey) -> Result<Option<Object>, Misuse> {
        Ok((self.0.key() == key).then(|| self.0.clone()))
    }

    fn cache_list(&self, _: &Call, _: &str, _: &CacheFilter) -> Result<CachePage, Misuse> {
        Ok(CachePage { items: vec![self.0.clone()], more: false })
    }

    fn cache_by_index(&self, _: &Call, _: &str, _: &str, _: &str) -> Result<Vec<Object>, Misuse> {
        Ok(Vec::new())
    }

    fn cache_index_values(&self, _: &Call, _: &str, _: &str) -> Result<Vec<String>, Misuse> {
        Ok(Vec::new())
    }

    fn cache_has_synced(&self, _: &Call, _: &str) -> Result<bool, Misuse> {
        Ok(true)
    }

    async fn client_get(&self, _: &Call, _: &ObjectType, _: &ObjectKey, _: &str) -> Result<Object, ApiError> {
        Err(no_server())
    }

    async fn client_list(&self, _: &Call, _: &ObjectType, _: &ListOptions) -> Result<LivePage, ApiError> {
        Err(no_server())
    }

    async fn client_create(&self, _: &Call, _: String, _: &str) -> Result<Object, ApiError> {
        Err(no_server())
    }

    async fn client_update(&self, _: &Call, _: String, _: &str) -> Result<Object, ApiError> {
        Err(no_server())
    }

    async fn client_patch(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: Patch,
        _: &str,
    ) -> Result<Object, ApiError> {
        Err(no_server())
    }

    async fn client_delete(
        &self,
        _: &Call,
        _: &ObjectType,
        _: &ObjectKey,
        _: &DeleteOptions,
    ) -> Result<(), ApiError> {
        Err(no_server())
    }

    fn queue_add(&self, _: &Call, _: &str, _: ObjectKey) -> Result<(), Misuse> {
        Ok(())
    }

    fn queue_add_after(&self, _: &Call, _: &str, _: ObjectKey, _: Duration) -> Result<(), Misuse> {
        Ok(())
    }

    fn publish_event(&self, _: &Call, _: PluginEvent<'_>) {}

    fn log(&self, _: &Call, _: LogLine<'_>) {}

    fn metric(&self, _: &Call, _: MetricSample<'_>) {}

    fn monotonic_clock(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn random(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
}
