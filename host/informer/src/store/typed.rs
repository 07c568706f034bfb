//! Typed reads: objects of a cache, decoded into Rust types.

use pilothouse_model::{DecodeError, Object, ObjectKey};
use serde::de::DeserializeOwned;

use super::{IndexError, Store, StoreReader};

/// Why a typed read by index failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The index could not be read.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// An object could not be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

fn decode_all<T: DeserializeOwned>(objects: Vec<Object>) -> Result<Vec<T>, DecodeError> {
    // By value, so that the text that decoding a packed object unpacks is freed before the next one is unpacked.
    objects.into_iter().map(|object| object.decode()).collect()
}

/// Typed reads. Each one decodes the whole text of the objects again, so it costs more than reading fields of an [`Object`].
impl StoreReader {
    /// Returns the object with this key, decoded.
    ///
    /// # Errors
    /// Errors if the object is not of the type's form; see [`Object::decode`].
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let server = pilothouse_apiserver::ApiServer::builder().build();
    /// # let client = kube::Client::new(server.service(), "default");
    /// # use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
    /// # let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use pilothouse_informer::ObjectKey;
    ///
    /// let subscription = registry.subscribe(InformerKey::of::<Namespace>(), SubscribeOptions::default()).unwrap();
    /// subscription.next_batch().await.expect("the informer runs");
    /// let default = subscription.store().get_as::<Namespace>(&ObjectKey::cluster("default")).unwrap();
    /// assert_eq!(default.expect("it exists").metadata.name.as_deref(), Some("default"));
    /// # });
    /// ```
    pub fn get_as<T: DeserializeOwned>(&self, key: &ObjectKey) -> Result<Option<T>, DecodeError> {
        self.get(key).map(|object| object.decode()).transpose()
    }

    /// Returns all objects in key order, decoded.
    ///
    /// # Errors
    /// Errors if one of the objects is not of the type's form. To skip such objects, decode those of [`list`](Self::list) one
    /// by one.
    pub fn list_as<T: DeserializeOwned>(&self) -> Result<Vec<T>, DecodeError> {
        decode_all(self.list())
    }

    /// Returns the objects of one namespace in key order, decoded.
    ///
    /// # Errors
    /// Same as [`list_as`](Self::list_as).
    pub fn list_in_as<T: DeserializeOwned>(&self, namespace: &str) -> Result<Vec<T>, DecodeError> {
        decode_all(self.list_in(namespace))
    }

    /// Returns the objects that have this value in an index of this subscriber, in key order, decoded.
    ///
    /// # Errors
    /// Errors if there is no such index, and if one of the objects is not of the type's form. To skip such objects, decode
    /// those of [`by_index`](Self::by_index) one by one.
    pub fn by_index_as<T: DeserializeOwned>(&self, name: &str, value: &str) -> Result<Vec<T>, ReadError> {
        Ok(decode_all(self.by_index(name, value)?)?)
    }
}

/// Typed reads. Each one decodes the whole text of the objects again, so it costs more than reading fields of an [`Object`].
impl Store {
    /// Returns the object with this key, decoded.
    ///
    /// # Errors
    /// Errors if the object is not of the type's form; see [`Object::decode`].
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use pilothouse_informer::{Object, ObjectKey, Store};
    ///
    /// let store = Store::new();
    /// let web = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"a"},"status":{"phase":"Running"}}"#;
    /// store.update(Object::from_json(web).unwrap());
    /// let pod = store.get_as::<Pod>(&ObjectKey::new("a", "web")).unwrap().expect("it is in the store");
    /// assert_eq!(pod.status.and_then(|status| status.phase).as_deref(), Some("Running"));
    /// ```
    pub fn get_as<T: DeserializeOwned>(&self, key: &ObjectKey) -> Result<Option<T>, DecodeError> {
        self.get(key).map(|object| object.decode()).transpose()
    }

    /// Returns all objects in key order, decoded.
    ///
    /// # Errors
    /// Errors if one of the objects is not of the type's form. To skip such objects, decode those of [`list`](Self::list) one
    /// by one.
    pub fn list_as<T: DeserializeOwned>(&self) -> Result<Vec<T>, DecodeError> {
        decode_all(self.list())
    }

    /// Returns the objects that have this value in an index, in key order, decoded.
    ///
    /// # Errors
    /// Errors if there is no such index, and if one of the objects is not of the type's form. To skip such objects, decode
    /// those of [`by_index`](Self::by_index) one by one.
    pub fn by_index_as<T: DeserializeOwned>(&self, name: &str, value: &str) -> Result<Vec<T>, ReadError> {
        Ok(decode_all(self.by_index(name, value)?)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{Node, Pod as TypedPod};

    use super::*;
    use crate::options::Compression;
    use crate::scripted_server::pod;
    use crate::store::{IndexFn, OWN_SCOPE, ReaderSource, StoreView};

    /// Returns an uncompressed store and one that packs all objects but the first, each with three pods and an index.
    fn stores() -> [Arc<Store>; 2] {
        [Store::new(), Store::compressed(Compression { training_bytes: 1 })].map(|store| {
            for (name, version, app) in [("a", 1, "web"), ("b", 2, "db"), ("c", 3, "web")] {
                store.update(pod(name, version).app(app).object());
            }
            store.add_index("app", IndexFn::label("app")).expect("new");
            Arc::new(store)
        })
    }

    fn reader(store: &Arc<Store>) -> StoreReader {
        let view = StoreView { store: Arc::clone(store), restriction: None, id: OWN_SCOPE };
        StoreReader::new(Arc::new(ReaderSource::from_pointee(view)))
    }

    fn names(pods: Vec<TypedPod>) -> Vec<String> {
        pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
    }

    #[test]
    fn objects_are_read_as_the_type_of_their_kind() {
        for store in stores() {
            let reader = reader(&store);
            let b = ObjectKey::new("ns", "b");
            for pod in [store.get_as::<TypedPod>(&b), reader.get_as::<TypedPod>(&b)] {
                let spec = pod.expect("a pod").expect("it is cached").spec.expect("it has a spec");
                assert_eq!(spec.node_name.as_deref(), Some("n-db"));
            }
            let absent = ObjectKey::new("ns", "z");
            assert!(store.get_as::<TypedPod>(&absent).expect("no error").is_none());
            assert!(reader.get_as::<TypedPod>(&absent).expect("no error").is_none());
            assert_eq!(names(store.list_as().expect("pods")), ["a", "b", "c"]);
            assert_eq!(names(reader.list_as().expect("pods")), ["a", "b", "c"]);
            assert_eq!(names(reader.list_in_as("ns").expect("pods")), ["a", "b", "c"]);
            assert_eq!(names(reader.list_in_as("other").expect("no pods")), Vec::<String>::new());
            assert_eq!(names(store.by_index_as("app", "web").expect("pods")), ["a", "c"]);
            assert_eq!(names(reader.by_index_as("app", "web").expect("pods")), ["a", "c"]);
        }
    }

    #[test]
    fn an_object_of_another_kind_and_an_unknown_index_are_errors() {
        for store in stores() {
            let reader = reader(&store);
            let error = reader.get_as::<Node>(&ObjectKey::new("ns", "a")).expect_err("a pod is no node");
            assert!(error.to_string().starts_with("cannot decode v1 Pod ns/a into "), "{error}");
            let errors = [store.by_index_as::<Node>("app", "db"), reader.by_index_as::<Node>("app", "db")];
            for error in errors.map(|read| read.expect_err("a pod is no node")) {
                assert!(matches!(&error, ReadError::Decode(error) if error.key().name() == "b"), "{error}");
            }
            let unknown = reader.by_index_as::<TypedPod>("node", "n-db").expect_err("no such index");
            assert!(matches!(unknown, ReadError::Index(IndexError::Unknown { .. })), "{unknown}");
        }
    }
}
