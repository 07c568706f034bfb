//! The interface to the API server: the source of list and watch bodies.

mod kube_client;
mod params;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

pub use kube_client::{KubeListWatch, KubeListWatches};
pub use params::{ListParams, WatchParams};

use crate::failure::Failure;
use crate::key::InformerKey;

/// A response body as it arrives. It ends with `None`; an error means that the connection was cut. Dropping it ends the request.
pub type ByteStream = BoxStream<'static, Result<Bytes, Failure>>;

/// The source of a reflector's lists and watches (client-go's `ListerWatcher`). Each informer has its own: the implementation
/// knows resource, namespace and selectors, the parameters say the rest.
///
/// An implementation returns as soon as the response head has arrived, and turns a status other than 2xx into a [`Failure`]
/// ([`Failure::response`]). Dropping a call ends the request.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use futures::StreamExt;
/// use pilothouse_informer::{
///     ByteStream, Failure, InformerKey, InformerOptions, InformerRegistry, ListParams, ListWatch, SubscribeOptions,
///     WatchParams,
/// };
/// # use pilothouse_model::ResourceType;
///
/// /// Serves one pod that never changes.
/// struct OnePod;
///
/// #[async_trait::async_trait]
/// impl ListWatch for OnePod {
///     async fn list(&self, _: &ListParams) -> Result<ByteStream, Failure> {
///         let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},
///             "items":[{"metadata":{"name":"web","namespace":"a","uid":"u","resourceVersion":"3"}}]}"#;
///         Ok(futures::stream::iter([Ok(list.into())]).boxed())
///     }
///
///     async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure> {
///         if params.send_initial_events {
///             return Err(Failure::response(400, None, b"no streaming lists here"));
///         }
///         Ok(futures::stream::pending().boxed())
///     }
/// }
///
/// # let pods = ResourceType {
/// #     group: String::new(), version: "v1".into(), kind: "Pod".into(), plural: "pods".into(), namespaced: true,
/// # };
/// let factory = |_: &InformerKey| -> Arc<dyn ListWatch> { Arc::new(OnePod) };
/// let registry = InformerRegistry::new(factory, InformerOptions::default());
/// let subscription = registry.subscribe(InformerKey::new(pods), SubscribeOptions::default()).unwrap();
/// assert_eq!(subscription.next_batch().await.unwrap()[0].key().to_string(), "a/web");
/// # });
/// ```
#[async_trait]
pub trait ListWatch: Send + Sync + 'static {
    /// Sends a list request and returns its body.
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure>;

    /// Sends a watch request and returns its body.
    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure>;
}

/// Creates the list-watch of each informer that a registry starts.
pub trait ListWatchFactory: Send + Sync + 'static {
    /// Returns the list-watch for an informer with this key.
    fn list_watch(&self, key: &InformerKey) -> Arc<dyn ListWatch>;

    /// Returns a probe of the server that all informers talk to; `None` (the default) if there is none. While informers wait after
    /// a connection failure, one of them probes the server about once a second, and all resume when it is back. Without a probe,
    /// each informer waits for its own backoff.
    fn probe(&self) -> Option<Arc<dyn ServerProbe>> {
        None
    }
}

/// Probes whether a server serves requests.
#[async_trait]
pub trait ServerProbe: Send + Sync + 'static {
    /// Whether the server serves requests. Called again only after the previous call has returned or was dropped.
    async fn is_ready(&self) -> bool;
}

impl<F> ListWatchFactory for F
where
    F: Fn(&InformerKey) -> Arc<dyn ListWatch> + Send + Sync + 'static,
{
    fn list_watch(&self, key: &InformerKey) -> Arc<dyn ListWatch> {
        self(key)
    }
}
