//! Converts custom resources between the version that is stored and the one that an endpoint serves.
//!
//! Without a conversion webhook, both differ in `apiVersion` only, which the endpoint sets when it serves an object.

use std::sync::Arc;

use serde_json::Value;

use super::{CustomForms, Endpoint};
use crate::status::Status;
use crate::storage::{ObjectDraft, StoredObject};

/// The most objects that one request to a conversion webhook contains.
const MAX_BATCH: usize = 500;
/// The bytes of objects that one request contains, unless a single object has more.
const MAX_BATCH_BYTES: usize = 2 << 20;

impl Endpoint {
    /// Returns an object in the version of this endpoint. Waits only if a webhook converts it.
    ///
    /// # Errors
    /// The conversion failed.
    pub(crate) async fn present(&self, object: Arc<StoredObject>) -> Result<Arc<StoredObject>, Status> {
        if !self.needs_conversion(&object) {
            return Ok(object);
        }
        let mut objects = [object];
        self.present_all(&mut objects).await?;
        let [object] = objects;
        Ok(object)
    }

    /// Converts objects to the version of this endpoint. Waits only if a webhook converts some of them.
    ///
    /// # Errors
    /// The conversion failed.
    pub(crate) async fn present_all(&self, objects: &mut [Arc<StoredObject>]) -> Result<(), Status> {
        let Some(webhook) = &self.webhook else { return Ok(()) };
        for batch in self.batches(objects) {
            let mut originals = Vec::with_capacity(batch.len());
            for position in &batch {
                originals.push(self.original(&objects[*position]));
            }
            let converted = webhook.convert(&originals, &self.api_version).await?;
            for (position, mut value) in batch.into_iter().zip(converted) {
                if let Some(schema) = &self.schema {
                    schema.give_form(&mut value);
                }
                let fields = objects[position].fields.clone();
                let schema = self.forms.as_ref().map_or(0, |forms| forms.served);
                let converted = ObjectDraft { value, fields, schema };
                objects[position] = Arc::new(StoredObject::unwritten(converted));
            }
        }
        Ok(())
    }

    /// Returns an object as it was stored, for a webhook. If it is in today's storage version, it has the form of today's schema.
    fn original(&self, object: &StoredObject) -> Value {
        let mut value = object.value();
        if let Some(CustomForms { stored: (schema, identity), .. }) = &self.forms
            && self.is_in_storage_version(object)
            && object.schema != *identity
        {
            schema.give_form(&mut value);
        }
        value["kind"] = self.kind().into();
        value
    }

    /// Returns whether an object is stored in the CRD's storage version.
    pub(super) fn is_in_storage_version(&self, object: &StoredObject) -> bool {
        let (stored, custom) = (object.api_version.as_deref(), self.resource.custom.as_ref());
        stored.zip(custom).is_none_or(|(stored, custom)| stored == custom.storage_version)
    }

    /// Returns the positions of objects to convert, as many in a batch as a webhook can answer within the limit of its answer.
    fn batches(&self, objects: &[Arc<StoredObject>]) -> Vec<Vec<usize>> {
        let mut batches: Vec<Vec<usize>> = Vec::new();
        let mut bytes = 0;
        for (position, object) in
            objects.iter().enumerate().filter(|(_, object)| self.needs_conversion(object))
        {
            bytes += object.body().len();
            match batches.last_mut() {
                Some(batch) if bytes <= MAX_BATCH_BYTES && batch.len() < MAX_BATCH => batch.push(position),
                _ => {
                    bytes = object.body().len();
                    batches.push(vec![position]);
                }
            }
        }
        batches
    }

    /// Converts a value of this endpoint's version to the version that is stored.
    ///
    /// # Errors
    /// The conversion failed.
    pub(crate) async fn to_storage(&self, mut value: Value) -> Result<Value, Status> {
        let Some(custom) = &self.resource.custom else { return Ok(value) };
        if custom.storage_version == self.api_version {
            return Ok(value);
        }
        if let Some(webhook) = &self.webhook {
            let converted = webhook.convert(std::slice::from_ref(&value), &custom.storage_version).await?;
            value = converted.into_iter().next().unwrap_or_default();
        }
        value["apiVersion"] = custom.storage_version.as_str().into();
        Ok(value)
    }

    fn needs_conversion(&self, object: &StoredObject) -> bool {
        self.webhook.is_some()
            && object.api_version.as_deref().is_some_and(|version| version != self.api_version)
    }
}
