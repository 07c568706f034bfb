//! Reading the cache.

use std::sync::Arc;

use pilothouse_plugin::{FaultKind, Limits, LogSource, Misuse, Outcome};

use crate::fake_host::FakeHost;
use crate::{fault, instance_of, request, wish};

#[tokio::test]
async fn an_unknown_watch_traps_with_those_declared() {
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
    let mut instance = instance_of("wish", &host, &Limits::default()).await;
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    // The guest logs each page's cursor.
    assert_eq!(host.messages(LogSource::Log), ["default/b", "default/d", ""]);
    assert_eq!(instance.open_handles(), 0);
}
