//! The seam to the API server: where bodies of lists and watches come from.

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

/// A response body as it arrives. It ends with `None`; an error means that it was cut. Dropping it ends the request.
pub type ByteStream = BoxStream<'static, Result<Bytes, Failure>>;

/// Where a reflector gets its lists and watches from (client-go's `ListerWatcher`). One per informer: resource, namespace
/// and selectors are the implementation's, the parameters say the rest.
///
/// An implementation returns as soon as the response's head is there, and treats a status that is not 2xx as a
/// [`Failure`] ([`Failure::response`]). Dropping a call ends the request.
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
/// /// One pod, for ever.
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
    /// Starts a list.
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure>;

    /// Starts a watch.
    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure>;
}

/// Makes the list-watch of each informer that a registry starts.
pub trait ListWatchFactory: Send + Sync + 'static {
    /// The list-watch for an informer.
    fn list_watch(&self, key: &InformerKey) -> Arc<dyn ListWatch>;

    /// A probe of the server that all of them talk to. While informers wait after a connection failure, one of them asks it about once a
    /// second, and all resume when the server is back. Without one, each sits out its own back-off.
    fn probe(&self) -> Option<Arc<dyn ServerProbe>> {
        None
    }
}

/// Asks a server whether it serves requests.
#[async_trait]
pub trait ServerProbe: Send + Sync + 'static {
    /// Whether it does. It is called again only after it has returned or was dropped.
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
