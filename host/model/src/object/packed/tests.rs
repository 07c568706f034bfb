//! Packed objects have the text and the metadata of the plain ones.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{CompressedText, Dictionary, Packed, PackedObject, PackedText, View};
use crate::object::tests::support::summary;
use crate::{Object, ObjectReader, ParseOptions};

fn pod(name: &str, text: &str, escaped: bool) -> Object {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-of-{name}"), "resourceVersion": "17", "generation": 3,
            "labels": {"app": "web", "tier": text}, "annotations": {"note": text},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}],
            "finalizers": ["example.com/stay"],
        },
        "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1.2.3", "args": [text]}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    if escaped {
        pod["metadata"]["uid"] = "quoted \" and\\ é \n".into();
        pod["metadata"]["resourceVersion"] = "\u{1}7".into();
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    Object::from_json(pod.to_string()).expect("a pod")
}

fn dictionary() -> Arc<Dictionary> {
    let samples: Vec<_> = (0..200).map(|i| pod(&format!("web-{i}"), "some text", false)).collect();
    Dictionary::train(&samples).expect("there are samples")
}

fn packed(object: &Object) -> PackedObject {
    dictionary().pack(object).expect("it becomes smaller")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_view_equals_the_object_before_and_after_unpacking(
        name in "[a-z0-9-]{1,80}",
        text in "\\PC{0,200}",
        escaped in any::<bool>(),
    ) {
        let object = pod(&name, &text, escaped);
        let packed = packed(&object);
        let view = packed.object();
        prop_assert_eq!(
            (packed.uid(), packed.resource_version(), packed.key()),
            (object.uid(), object.resource_version(), object.key())
        );
        prop_assert_eq!((view.uid(), view.generation()), (object.uid(), object.generation()));
        prop_assert_eq!(summary(&view), summary(&object));
        prop_assert_eq!(&view, &object);
        prop_assert_eq!(view.to_value(), object.to_value());
    }

    #[test]
    fn a_dictionary_of_any_samples_packs_any_object(texts in proptest::collection::vec("\\PC{0,40}", 1..20), text in "\\PC{0,200}") {
        let samples: Vec<_> = texts.iter().map(|text| pod("sample", text, false)).collect();
        let dictionary = Dictionary::train(&samples).expect("there are samples");
        let object = pod("web", &text, false);
        if let Some(packed) = dictionary.pack(&object) {
            prop_assert_eq!(packed.object(), object);
        }
    }
}

#[test]
fn a_view_unpacks_once_and_shares_the_text_with_its_clones_only() {
    let object = pod("web", "some text", false);
    let packed = packed(&object);
    let (view, other) = (packed.object(), packed.object());
    let before = view.memory_size();
    assert!(packed.memory_size() < object.memory_size() / 2, "{packed:?} is no smaller");
    assert_eq!((view.uid(), view.resource_version(), view.generation()), ("uid-of-web", "17", 3));
    assert_eq!(view.memory_size(), before, "these fields need no unpacking");
    assert_eq!(view.json().as_ptr(), view.clone().json().as_ptr(), "clones share the text");
    assert_eq!(view.memory_size(), before + object.json().len());
    assert_eq!(other.memory_size(), before, "another view has not unpacked");
    assert_eq!(view.fresh_view().memory_size(), before);
    assert!(view.fresh_view().ptr_eq(&view) && object.fresh_view().ptr_eq(&object));
    drop(view);
    assert_eq!(packed.object().memory_size(), before, "the text was dropped with the view");
}

#[test]
fn views_of_one_packed_object_are_the_same_pointer_and_others_are_equal() {
    let object = pod("web", "some text", false);
    let packed = packed(&object);
    let view = packed.object();
    assert!(view.ptr_eq(&packed.object()) && !view.ptr_eq(&object));
    let again = dictionary().pack(&view).expect("packed already");
    assert!(again.ptr_eq(&packed), "packing a view returns the packed object");
    let other = dictionary().pack(&object).expect("smaller");
    assert!(!other.object().ptr_eq(&view) && other.object() == view);
    assert!(
        PackedObject::of(&view).is_some_and(|of| of.ptr_eq(&packed)) && PackedObject::of(&object).is_none()
    );
}

#[test]
fn an_object_that_would_not_become_smaller_is_not_packed() {
    let small =
        Object::from_json(r#"{"apiVersion":"x/v9","kind":"Q","metadata":{"name":"w"}}"#).expect("an object");
    assert!(dictionary().pack(&small).is_none());
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(33 + u8::try_from((state >> 33) % 94).expect("small"))
    };
    // 94 different characters: 6.6 bits of entropy per byte, which the dictionary does not reduce.
    let noise: String = (0..100_000).map(|_| random()).collect();
    let noisy = pod("noisy", &noise, false);
    if let Some(packed) = dictionary().pack(&noisy) {
        assert!(packed.memory_size() < noisy.memory_size());
        assert_eq!(packed.object(), noisy);
    }
}

#[test]
fn training_without_samples_returns_none() {
    assert!(Dictionary::train([]).is_none());
}

/// Damaged memory must not end the host.
#[test]
fn a_damaged_object_reads_as_an_empty_one() {
    let object = pod("web", "some text", false);
    let sound = packed(&object);
    let PackedText::Compressed(text) = &sound.0.text else { panic!("it is compressed") };
    let start = sound.uid().len() + sound.resource_version().len();
    for damage in [start, start + 7, text.bytes.len() - 1] {
        let mut bytes = text.bytes.clone();
        bytes[damage] ^= 0x55;
        let cut = text.bytes[..damage].into();
        for bytes in [bytes, cut] {
            let damaged = CompressedText {
                bytes,
                uid_len: text.uid_len,
                version_len: text.version_len,
                len: text.len,
                dictionary: Arc::clone(&text.dictionary),
                layout: None,
            };
            let damaged = PackedObject(Arc::new(Packed {
                metadata: sound.0.metadata.clone(),
                text: PackedText::Compressed(damaged),
            }));
            let view = damaged.object();
            assert_eq!((view.key(), view.uid()), (object.key(), object.uid()));
            // A flipped bit in a literal makes another text of the same length. Other damage is detected.
            let is_blank = view.json().starts_with("{}");
            assert!(is_blank || view.json().len() == object.json().len());
            assert!(!summary(&view).is_empty(), "no accessor panics");
        }
    }
}

/// A text that is made from that of another object is compressed without the copies.
#[test]
fn a_shared_text_is_compressed_without_what_it_shares() {
    let words = |numbers: std::ops::Range<u32>| -> String {
        numbers.map(|number| format!("word{} ", number * 7_919 % 1_000)).collect()
    };
    let (options, mut reader) = (ParseOptions::default().with_shared_text(1), ObjectReader::default());
    let mut read = |name: &str, own: u32| {
        let words = format!("\"args\":[\"{}\",\"{}\",", words(0..800), words(800..800 + own));
        let text = pod(name, "some text", false).json().replace("\"args\":[", &words);
        reader.read(text.as_bytes(), &options, |_| None).expect("a pod")
    };
    let (base, shared) = (read("a", 0), read("b", 100));
    let dictionary = dictionary();
    let [of_base, of_shared] =
        [&base, &shared].map(|object| dictionary.pack(object).expect("it becomes smaller"));
    assert!(of_shared.is_compressed() && of_shared.memory_size() + 500 < of_base.memory_size());
    for (packed, object) in [(of_base, base), (of_shared, shared)] {
        let view = packed.object();
        assert_eq!((view.uid(), view.resource_version()), (object.uid(), object.resource_version()));
        assert_eq!(view.unpacked_size() - packed.memory_size(), object.json().len() + size_of::<View>());
        assert_eq!(summary(&view), summary(&object));
        let again = dictionary.pack(&view).expect("a view of a compressed object");
        assert!(again.ptr_eq(&packed));
    }
}
