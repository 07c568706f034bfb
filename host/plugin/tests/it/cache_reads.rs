//! Reads of the cache and of objects.

use std::sync::Arc;

use pilothouse_plugin::{FaultKind, InstanceLimits, LogSource, Misuse, Outcome};

use crate::fake_host::FakeHost;
use crate::{fault, instance_of, request, wish, wish_with};

#[tokio::test]
async fn an_unknown_watch_traps_with_the_declared_ones() {
    let (answer, _) = wish("unknown").await;
    let misuse = fault(answer);
    let declared = vec!["configmaps".to_owned()];
    let expected = Misuse::UnknownWatch { watch: "unknown".to_owned(), declared };
    assert_eq!(misuse.kind(), &FaultKind::Misuse(expected));
    assert_eq!(
        misuse.to_string(),
        r#"reconcile trapped: unknown watch "unknown": the descriptor declares configmaps"#
    );
}

#[tokio::test]
async fn a_list_is_paged_by_the_key_of_its_last_object() {
    let host = Arc::new(FakeHost::default());
    for name in ["a", "b", "c", "d", "e"] {
        host.put_wish(name, "list");
    }
    let mut instance = instance_of("wish", &host, &InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    // The guest logs each page's cursor.
    assert_eq!(host.messages(LogSource::Log), ["default/b", "default/d", ""]);
    assert_eq!(instance.open_handles(), 0);
}

#[tokio::test]
async fn list_fields_reads_many_objects_without_handles() {
    let host = Arc::new(FakeHost::default());
    for name in ["a", "b", "c"] {
        host.put_wish(name, &format!("wishes of {name}"));
    }
    let mut instance =
        instance_of("wish", &host, &InstanceLimits { handles: 2, ..InstanceLimits::default() }).await;
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    let values = [r#""wishes of a""#, r#""wishes of b""#, r#""wishes of c""#];
    assert_eq!(host.messages(LogSource::Log), values);
}

#[tokio::test]
async fn list_fields_limits_its_pointers_and_its_answer() {
    let (answer, _) = wish(&"v".repeat(65)).await;
    let expected = Misuse::TooManyPointers { function: "cache.list-fields", allowed: 64, given: 65 };
    assert_eq!(fault(answer).kind(), &FaultKind::Misuse(expected));
    let limits = InstanceLimits { message_size: 8 << 10, ..InstanceLimits::default() };
    let (answer, _) = wish_with(&"v".repeat(64), FakeHost::default(), &limits).await;
    assert_eq!(fault(answer).kind(), &FaultKind::MessageSize { allowed: 8 << 10 });
}

#[tokio::test]
async fn fields_and_texts_read_several_values_in_one_call() {
    let (answer, host) = wish("yes, \"both\"").await;
    assert_eq!(answer, Ok(Outcome::Done));
    assert_eq!(host.messages(LogSource::Log), [r#""yes, \"both\"""#, r#"yes, "both""#]);
}

#[tokio::test]
async fn fields_and_texts_limit_their_pointers_and_their_answer() {
    for (letter, function) in [("j", "object.fields"), ("z", "object.texts")] {
        let trapped = fault(wish(&letter.repeat(65)).await.0);
        let expected = Misuse::TooManyPointers { function, allowed: 64, given: 65 };
        assert_eq!(trapped.kind(), &FaultKind::Misuse(expected));
        let message = format!("reconcile trapped: {function} takes at most 64 pointers, not 65");
        assert_eq!(trapped.to_string(), message);
        // Each value has about 160 bytes of JSON: one fits into the limit, 64 do not.
        let limits = InstanceLimits { message_size: 8 << 10, ..InstanceLimits::default() };
        assert_eq!(wish_with(letter, FakeHost::default(), &limits).await.0, Ok(Outcome::Done));
        let (answer, _) = wish_with(&letter.repeat(64), FakeHost::default(), &limits).await;
        assert_eq!(fault(answer).kind(), &FaultKind::MessageSize { allowed: 8 << 10 });
    }
}
