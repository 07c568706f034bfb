//! Decodes an object into a Rust type of its kind.

use serde::de::DeserializeOwned;

use super::Object;
use crate::ObjectKey;

/// An object could not be decoded into a Rust type.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot decode {api_version} {kind} {key} into {target}: {source}; use a type of that kind and version that accepts the fields of this object"
)]
pub struct DecodeError {
    api_version: String,
    kind: String,
    key: ObjectKey,
    /// The name of the Rust type.
    target: &'static str,
    source: serde_json::Error,
}

impl Object {
    /// Decodes the object into a Rust type of its kind, such as those of `k8s_openapi` or those that kube derives.
    ///
    /// The whole text is read. To read a few fields, [`text`](Self::text) and [`field`](Self::field) are many times as fast. Members that a
    /// [`Transform`](crate::Transform) dropped are absent, so the type must accept an object without them.
    ///
    /// # Errors
    /// Errors if the object is not of the type's form. The types of `k8s_openapi` also check `apiVersion` and `kind`.
    ///
    /// ```
    /// use pilothouse_model::Object;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Pod {
    ///     spec: PodSpec,
    /// }
    ///
    /// #[derive(serde::Deserialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct PodSpec {
    ///     node_name: String,
    /// }
    ///
    /// let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"node-7"}}"#;
    /// let pod: Pod = Object::from_json(pod).unwrap().decode().unwrap();
    /// assert_eq!(pod.spec.node_name, "node-7");
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        serde_json::from_str(self.json()).map_err(|source| DecodeError {
            api_version: self.api_version().to_owned(),
            kind: self.kind().to_owned(),
            key: self.key().clone(),
            target: std::any::type_name::<T>(),
            source,
        })
    }
}

impl DecodeError {
    /// Returns the key of the object.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn config_map(data: &str) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","namespace":"shop"}},"data":{data}}}"#
        );
        Object::from_json(json).expect("a ConfigMap")
    }

    #[derive(Debug, serde::Deserialize)]
    struct ConfigMap {
        data: BTreeMap<String, String>,
    }

    #[test]
    fn an_object_is_decoded_into_a_type_of_its_form() {
        let decoded: ConfigMap = config_map(r#"{"k":"v"}"#).decode().expect("strings");
        assert_eq!(decoded.data, BTreeMap::from([("k".to_owned(), "v".to_owned())]));
    }

    #[test]
    fn the_error_names_the_object_the_type_and_the_reason() {
        let error = config_map(r#"{"k":1}"#).decode::<ConfigMap>().expect_err("not a string");
        assert_eq!(error.key().as_str(), "shop/a");
        let text = error.to_string();
        assert!(text.starts_with("cannot decode v1 ConfigMap shop/a into "), "{text}");
        assert!(text.contains("::ConfigMap: invalid type: integer `1`, expected a string"), "{text}");
        assert!(std::error::Error::source(&error).is_some(), "the reason is the source");
    }
}
