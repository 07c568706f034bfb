//! How much memory a call takes while a recorder keeps it.

use pilothouse_model::{Object, ObjectKey};

use super::{HostAnswer, HostCall, HostRequest};
use crate::{IndexCursor, PatchType};

impl HostCall {
    /// Returns the approximate size of the call in memory in bytes, with all texts and objects in it. Guests choose most of the texts, so an
    /// recorder that keeps calls has to bound their sum.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        size_of::<Self>() + of_request(&self.request) + of_answer(&self.answer)
    }
}

fn of_request(request: &HostRequest) -> usize {
    match request {
        HostRequest::CacheGet { watch, key }
        | HostRequest::QueueAdd { watch, key }
        | HostRequest::QueueAddAfter { watch, key, .. } => texts(&[watch, key.as_str()]),
        HostRequest::CacheList { watch, filter } => {
            let after = filter.after.as_ref().map_or("", ObjectKey::as_str);
            texts(&[
                watch,
                filter.namespace.as_deref().unwrap_or_default(),
                after,
                &filter.labels.to_string(),
            ])
        }
        HostRequest::CacheByIndex { watch, index, value, from }
        | HostRequest::CacheIndexKeys { watch, index, value, from } => {
            texts(&[watch, index, value]) + of_cursor(from)
        }
        HostRequest::CacheIndexValues { watch, index, from } => texts(&[watch, index]) + of_cursor(from),
        HostRequest::CacheHasSynced { watch } => watch.len(),
        HostRequest::ClientGet { target, key, subresource } => {
            texts(&[&target.api_version, &target.kind, key.as_str(), subresource])
        }
        HostRequest::ClientList { target, options } => texts(&[
            &target.api_version,
            &target.kind,
            &options.namespace,
            &options.label_selector,
            &options.field_selector,
            &options.cursor,
        ]),
        HostRequest::ClientCreate { manifest, subresource }
        | HostRequest::ClientUpdate { manifest, subresource } => texts(&[manifest, subresource]),
        HostRequest::ClientPatch { target, key, patch, subresource } => {
            let manager = match &patch.patch_type {
                PatchType::Apply { field_manager, .. } => field_manager.as_deref().unwrap_or_default(),
                PatchType::Json | PatchType::Merge | PatchType::Strategic => "",
            };
            texts(&[&target.api_version, &target.kind, key.as_str(), subresource, &patch.body, manager])
        }
        HostRequest::ClientDelete { target, key, options } => {
            let preconditions =
                [&options.uid, &options.resource_version].map(|text| text.as_deref().unwrap_or_default());
            texts(&[&target.api_version, &target.kind, key.as_str()]) + texts(&preconditions)
        }
        HostRequest::PublishEvent { regarding, reason, action, note, .. } => {
            regarding.unpacked_size() + texts(&[reason, action, note])
        }
        HostRequest::Log { message, fields, .. } => message.len() + of_pairs(fields),
        HostRequest::Metric { name, labels, .. } => name.len() + of_pairs(labels),
        HostRequest::HttpSend { method, url } => texts(&[method, url]),
        HostRequest::WallClock | HostRequest::MonotonicClock | HostRequest::Random { .. } => 0,
    }
}

fn of_answer(answer: &HostAnswer) -> usize {
    match answer {
        HostAnswer::Nothing
        | HostAnswer::Abandoned
        | HostAnswer::HasSynced(_)
        | HostAnswer::Time(_)
        | HostAnswer::HttpStatus(_) => 0,
        HostAnswer::Object(object) => object.as_ref().map_or(0, Object::unpacked_size),
        HostAnswer::CachePage(page) => {
            of_objects(&page.items) + page.searched_to.as_ref().map_or(0, |key| key.as_str().len())
        }
        HostAnswer::LivePage(page) => of_objects(&page.items) + page.next.len(),
        HostAnswer::Objects(part) => of_objects(&part.found) + part.next.as_ref().map_or(0, of_cursor),
        HostAnswer::Keys(part) => {
            let keys: usize = part.found.iter().map(|key| size_of::<ObjectKey>() + key.as_str().len()).sum();
            keys + part.next.as_ref().map_or(0, of_cursor)
        }
        HostAnswer::Values(part) => {
            let values: usize = part.found.iter().map(|value| size_of::<String>() + value.len()).sum();
            values + part.next.as_ref().map_or(0, of_cursor)
        }
        HostAnswer::Random(bytes) => bytes.len(),
        HostAnswer::Misuse(misuse) => misuse.to_string().len(),
        HostAnswer::ApiError(error) => error.to_string().len(),
        HostAnswer::HttpError(error) => error.to_string().len(),
    }
}

fn texts(texts: &[&str]) -> usize {
    texts.iter().map(|text| text.len()).sum()
}

fn of_objects(objects: &[Object]) -> usize {
    objects.iter().map(Object::unpacked_size).sum()
}

fn of_cursor(cursor: &IndexCursor) -> usize {
    cursor.value.as_ref().map_or(0, String::len) + cursor.key.as_ref().map_or(0, |key| key.as_str().len())
}

fn of_pairs(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| size_of::<(String, String)>() + name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ApiError, IndexPage, ListOptions, ObjectType};

    const LONG: usize = 100_000;

    fn request(request: HostRequest) -> usize {
        HostCall { request, answer: HostAnswer::Nothing }.memory_size()
    }

    #[test]
    fn every_text_that_a_guest_chooses_counts() {
        let long = || "a".repeat(LONG);
        let target = ObjectType { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
        let options = ListOptions {
            namespace: String::new(),
            label_selector: long(),
            field_selector: String::new(),
            limit: 1,
            cursor: String::new(),
        };
        for size in [
            request(HostRequest::CacheIndexKeys {
                watch: "pods".to_owned(),
                index: "team".to_owned(),
                value: long(),
                from: IndexCursor::default(),
            }),
            request(HostRequest::ClientList { target, options }),
            request(HostRequest::ClientCreate { manifest: long(), subresource: String::new() }),
            request(HostRequest::HttpSend { method: "GET".to_owned(), url: long() }),
        ] {
            assert!((LONG..LONG + 10_000).contains(&size), "{size}");
        }
        assert!(request(HostRequest::WallClock) < 10_000);
    }

    #[test]
    fn the_size_of_a_call_includes_its_answer() {
        let answer = |answer| HostCall { request: HostRequest::WallClock, answer }.memory_size();
        let values = IndexPage { found: vec!["a".repeat(LONG)], next: None };
        assert!(answer(HostAnswer::Values(values)) > LONG);
        assert!(answer(HostAnswer::ApiError(ApiError::Forbidden("a".repeat(LONG)))) > LONG);
        let object = Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"a":"{}"}}}}"#,
            "a".repeat(LONG)
        ));
        assert!(answer(HostAnswer::Object(Some(object.expect("an object")))) > LONG);
    }
}
