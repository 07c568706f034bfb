//! From the API server to the delta queue: list, watch, and what to do when either fails.
//!
//! The decisions are made by a pure machine; a driver does the requests and the waiting. `last` is the last resource version seen.
//! Every failure is shown in the informer's status until a list or a watch succeeds.
//!
//! # Transitions
//!
//! "List" in the column of outputs means: a streaming list where they are on, else a plain list; at version `0` first, then at `last`, unset (a
//! consistent read) while the server has refused the version or gone back behind it. Each row names a test; another test checks that it exists.
//!
//! | state | input | next state | output | test |
//! |---|---|---|---|---|
//! | idle | start | listing, or streaming | list | `the_first_list_accepts_any_version_and_a_relist_none_older_than_the_last_seen`, `initial_events_advance_the_version_only_at_their_end` |
//! | listing | page with a token | listing | the next page (lists are paged only when the version is unset) | `a_consistent_list_is_paged` |
//! | listing | last page | watching | `Replaced`; watch from the list's version, which is `last` now | `the_watch_starts_at_the_lists_version_with_a_random_timeout` |
//! | listing | last page, no item | watching | `Replaced` with nothing, which syncs | `an_empty_list_is_a_replacement_and_syncs` |
//! | listing | 410 of a token | listing | one list without pages or version, at once | `a_410_in_the_middle_of_a_list_leads_to_one_full_list` |
//! | listing | 410, or "too large resource version" | listing, or streaming | list with the version unset, at once | `only_a_refused_list_is_followed_by_a_consistent_read` |
//! | listing | the same, of a consistent read | waiting | back off, list | `a_refused_consistent_read_backs_off` |
//! | listing | 429 | waiting | wait as asked, then the same page | `a_429_honours_retry_after_and_does_not_relist` |
//! | listing | a page with the token of the page before, too many items, or more than 100 pages without one | waiting | nothing is kept; back off, list | `a_repeated_continue_token_ends_the_list`, `a_list_above_max_list_items_is_aborted_in_one_page_or_several`, `more_than_100_empty_pages_end_the_list` |
//! | listing | cut, any other failure | waiting | nothing is kept; back off, list | `a_paged_list_cut_after_page_one_leaves_nothing_behind`, `a_failed_list_backs_off_and_reports_the_reason` |
//! | streaming | initial event, bookmark | streaming | collected; `last` does not move (B04) | `initial_events_advance_the_version_only_at_their_end` |
//! | streaming | bookmark `initial-events-end` | watching | `Replaced`; the same stream goes on | `initial_events_advance_the_version_only_at_their_end` |
//! | streaming | ended, cut | listing | nothing is kept; plain list at once | `a_cut_streaming_list_starts_over_and_misses_no_deletion`, `a_cut_streaming_relist_leaves_the_store_unchanged` |
//! | streaming | too many initial events | listing | plain list at once | `endless_initial_events_fall_back_to_a_plain_list` |
//! | streaming | silent | listing | plain list at once | `a_server_that_ignores_send_initial_events_gets_a_plain_list_after_ten_seconds` |
//! | streaming | 400, 405, 406, 415, 422 | listing | plain list at once; no fault is shown | `an_unsupported_streaming_list_falls_back_to_a_plain_list_at_once` |
//! | streaming | any other failure | listing | plain list at once | `a_failed_streaming_list_falls_back_to_a_plain_list_at_once` |
//! | streaming | 410, or "too large resource version" | streaming | streaming list with the version unset, at once; the second time a plain one | `a_streaming_list_from_an_expired_version_becomes_a_consistent_read` |
//! | streaming | 429, connection refused | waiting | wait as asked, or back off; list | `a_streaming_list_backs_off_for_a_busy_and_for_an_unreachable_server` |
//! | watching | ADDED, MODIFIED, DELETED | watching | delta; `last` moves | `events_become_deltas_and_bookmarks_only_advance_the_version` |
//! | watching | BOOKMARK | watching | `last` moves | `a_bookmark_advances_the_version_and_counts_as_progress` |
//! | watching | any of these, at a version lower than `last` | waiting | not used; back off, list with the version unset | `a_lower_resource_version_leads_to_a_consistent_list`, `a_consistent_list_is_retried_until_it_succeeds` |
//! | watching | the same, after three times behind which the list had not gone back | watching | delta; `last` stays | `a_server_with_unordered_events_does_not_cause_a_relist_for_each` |
//! | watching | ended, or cut | watching | watch from `last` | `a_watch_that_ends_normally_resumes_at_once_without_a_relist` |
//! | watching | ended, or cut, within a second and without progress | waiting | back off, watch from `last` | `a_very_short_watch_backs_off` |
//! | watching | silent after it had told something | watching | watch from `last` | `a_dead_connection_is_detected` |
//! | watching | silent for 2 to 6 s, the first since a connection was lost, refused or reset | probing | list of one item with the version unset | `a_server_restored_during_a_connection_loss_is_detected_within_seconds`, `a_server_that_was_not_restored_is_probed_once_and_the_watch_resumes` |
//! | watching | silent from its beginning | probing | list of one item at `last` | `a_watch_that_sends_nothing_is_closed_and_the_server_is_probed` |
//! | watching | 429, by status or ERROR event | waiting | wait as asked, watch from `last` | `an_error_event_with_429_backs_off_and_resumes`, `a_429_honours_retry_after_and_does_not_relist` |
//! | watching | connection refused or failed before it was opened | waiting | back off, watch from `last` | `a_refused_connection_retries_the_watch_without_relisting` |
//! | watching | 5xx, by status or ERROR event | waiting | back off, watch from `last`; the fourth time without progress: list | `an_internal_error_resumes_three_times_without_progress_then_relists` |
//! | watching | "too large resource version" | waiting | back off, list | `a_too_large_resource_version_leads_to_a_consistent_list` |
//! | watching | 410, any other failure or ERROR event | waiting | back off, list | `other_error_events_relist` |
//! | watching | an event that cannot be read | waiting | counted; back off, list | `a_malformed_event_causes_a_relist_and_is_counted` |
//! | probing | a page | watching | its item is not used; watch from `last` | `a_watch_that_sends_nothing_is_closed_and_the_server_is_probed` |
//! | probing | 410, "too large resource version", or a page from before `last` | listing, or streaming | list with the version unset, at once | `a_restored_server_that_sends_nothing_is_detected` |
//! | probing | 429 | waiting | wait as asked, watch from `last` | `a_failed_probe_is_followed_by_the_watch` |
//! | probing | any other failure | waiting | back off, watch from `last` | `a_failed_probe_is_followed_by_the_watch` |
//! | waiting | the server is back after a connection failure | any | after up to 750 ms, what the wait was for | `informers_resume_within_two_seconds_of_the_servers_recovery`, `a_server_that_answers_only_probes_does_not_shorten_the_backoff` |
//! | waiting | time is up | any | what the wait was for | `a_429_honours_retry_after_and_does_not_relist` |
//! | any | stop | gone | the request is dropped, nothing more is queued (B08) | `stop_drops_the_request_and_ends_the_task`, `stop_is_prompt_during_backoff_list_and_backpressure` |
//!
//! No cycle of these lists for ever without a wait: a list that fails is followed by a wait, or by one other kind of list (plain after streaming,
//! consistent after any) before it; a watch is followed by a list only after a wait or after the idle time-out.
//!
//! "Wait as asked" means: as long as `Retry-After` or `retryAfterSeconds` says, in seconds, and at most a minute. Where that is less than the
//! shortest wait (0 is), absent, a date or no number, the wait is that of the back-off.
//!
//! # When a streaming list fails
//!
//! A plain list follows at once, whatever the reason, as in client-go: it is a request of another kind, which a server may answer that refuses or
//! breaks the first, and if it fails as well that is what backs off. Streaming is not given up, though. "Not supported" may come from a server that is
//! upgraded during the informer's life, or from one of several behind one address; a stream that was cut may get through the next time. So the next
//! list is a streaming one again, which costs one refused request. After two failures in a row streaming is left alone for ten minutes, because some
//! failures cost more: a server that does not know the parameter is noticed by its silence, and a cut throws away what was read.
//!
//! # When versions go back
//!
//! A server that was restored from a backup continues at an earlier version. An informer that has seen later ones would wait for them for ever,
//! with a cache of what never was. It finds out in four ways: the first watch after a connection was lost, refused or reset tells nothing for some
//! seconds, and the server, asked for one item, answers with a lower version; a watch tells a version that is lower than `last`, where both are decimal; a list or a
//! watch says "too large resource version"; or the watch says nothing at all, as kube-apiserver's does, which holds back every event and bookmark up
//! to the version asked for. Each leads to a consistent list, whose version is the truth. The initial events of a streaming list are exempt, since
//! they are in no order.
//!
//! It cannot be found out once the server has passed the last version that the informer saw: then the watch resumes in a history that is not the one
//! that the informer knows. Hence the advice to raise the revision when etcd is restored (`etcdutl snapshot restore --bump-revision …
//! --mark-compacted`).

mod backoff;
mod driver;
mod idle;
mod state_machine;
mod version_order;
mod phase;
mod recovery;
mod reuse;
mod streaming;
#[cfg(test)]
mod tests;
mod verify;

pub use driver::Reflector;
pub(crate) use recovery::ServerRecovery;
