//! The reflector: lists and watches a collection of the API server, queues the changes, and recovers from failures.
//!
//! A state machine without I/O makes the decisions; a driver sends the requests and waits. `last` is the last resource version
//! seen. Every failure is shown in the informer's status until a list or a watch succeeds.
//!
//! # Transitions
//!
//! "List" in the output column means a streaming list if streaming lists are enabled and not paused, and a plain list otherwise. The
//! first list requests version `0`, later ones `last`. The version is unset (a consistent read) after the server
//! refused the version or went back behind it. Each row names tests; another test checks that they exist.
//!
//! | state | input | next state | output | test |
//! |---|---|---|---|---|
//! | idle | start | listing, or streaming | list | `the_first_list_accepts_any_version_and_a_relist_none_older_than_the_last_seen`, `initial_events_advance_the_version_only_at_their_end` |
//! | listing | page with a continue token | listing | the next page (only lists without a version are paged) | `a_consistent_list_is_paged` |
//! | listing | last page | watching | `Replaced`; watch from the list's version, which is `last` now | `the_watch_starts_at_the_lists_version_with_a_random_timeout` |
//! | listing | last page, no items | watching | an empty `Replaced`, after which the informer is synced | `an_empty_list_is_a_replacement_and_syncs` |
//! | listing | 410 for a continue token | listing | one list without paging and version, at once | `a_410_in_the_middle_of_a_list_leads_to_one_full_list` |
//! | listing | 410, or "too large resource version" | listing, or streaming | list with the version unset, at once | `only_a_refused_list_is_followed_by_a_consistent_read` |
//! | listing | 410, or "too large resource version", for a list with the version unset | waiting | back off, list | `a_refused_consistent_read_backs_off` |
//! | listing | 429 | waiting | wait as requested, then the same page | `a_429_honours_retry_after_and_does_not_relist` |
//! | listing | a page with the previous page's token, too many items, or more than 100 pages without items | waiting | discard the list; back off, list | `a_repeated_continue_token_ends_the_list`, `a_list_above_max_list_items_is_aborted_in_one_page_or_several`, `more_than_100_empty_pages_end_the_list` |
//! | listing | connection cut, any other failure | waiting | discard the list; back off, list | `a_paged_list_cut_after_page_one_leaves_nothing_behind`, `a_failed_list_backs_off_and_reports_the_reason` |
//! | streaming | initial event, bookmark | streaming | collect the object; `last` does not change | `initial_events_advance_the_version_only_at_their_end` |
//! | streaming | bookmark `initial-events-end` | watching | `Replaced`; the same stream continues | `initial_events_advance_the_version_only_at_their_end` |
//! | streaming | ended, cut | listing | discard the initial events; plain list at once | `a_cut_streaming_list_starts_over_and_misses_no_deletion`, `a_cut_streaming_relist_leaves_the_store_unchanged` |
//! | streaming | too many initial events | listing | plain list at once | `endless_initial_events_fall_back_to_a_plain_list` |
//! | streaming | idle | listing | plain list at once | `a_server_that_ignores_send_initial_events_gets_a_plain_list_after_ten_seconds` |
//! | streaming | 400, 405, 406, 415, 422 | listing | plain list at once; no failure is shown | `an_unsupported_streaming_list_falls_back_to_a_plain_list_at_once` |
//! | streaming | any other failure | listing | plain list at once | `a_failed_streaming_list_falls_back_to_a_plain_list_at_once` |
//! | streaming | 410, or "too large resource version" | streaming | streaming list with the version unset, at once; a plain list if that is refused, too | `a_streaming_list_from_an_expired_version_becomes_a_consistent_read` |
//! | streaming | 429, connection refused | waiting | wait as requested, or back off; list | `a_streaming_list_backs_off_for_a_busy_and_for_an_unreachable_server` |
//! | watching | ADDED, MODIFIED, DELETED | watching | delta; `last` advances | `events_become_deltas_and_bookmarks_only_advance_the_version` |
//! | watching | BOOKMARK | watching | `last` advances | `a_bookmark_advances_the_version_and_counts_as_progress` |
//! | watching | an event or bookmark with a version lower than `last` | waiting | discard the event; back off, list with the version unset | `a_lower_resource_version_leads_to_a_consistent_list`, `a_consistent_list_is_retried_until_it_succeeds` |
//! | watching | an event or bookmark with a version lower than `last`, after three lists in a row whose versions were not lower | watching | delta; `last` does not change | `a_server_with_unordered_events_does_not_cause_a_relist_for_each` |
//! | watching | ended, or cut | watching | watch from `last` | `a_watch_that_ends_normally_resumes_at_once_without_a_relist` |
//! | watching | ended, or cut, within a second and without progress | waiting | back off, watch from `last` | `a_very_short_watch_backs_off` |
//! | watching | idle after it sent something | watching | watch from `last` | `a_dead_connection_is_detected` |
//! | watching | idle for 2 to 6 s, on the first watch after a connection was lost, refused or reset | verifying | list of one item with the version unset | `a_server_restored_during_a_connection_loss_is_detected_within_seconds`, `a_server_that_was_not_restored_is_verified_once_and_the_watch_resumes` |
//! | watching | idle since it was opened | verifying | list of one item at `last` | `a_watch_that_sends_nothing_is_closed_and_the_server_is_verified` |
//! | watching | 429, as status or ERROR event | waiting | wait as requested, watch from `last` | `an_error_event_with_429_backs_off_and_resumes`, `a_429_honours_retry_after_and_does_not_relist` |
//! | watching | connection refused, or failed before the watch was opened | waiting | back off, watch from `last` | `a_refused_connection_retries_the_watch_without_relisting` |
//! | watching | 5xx, as status or ERROR event | waiting | back off, watch from `last`; list after the fourth time without progress | `an_internal_error_resumes_three_times_without_progress_then_relists` |
//! | watching | "too large resource version" | waiting | back off, list | `a_too_large_resource_version_leads_to_a_consistent_list` |
//! | watching | 410, any other failure or ERROR event | waiting | back off, list | `an_error_event_with_410_403_or_400_relists` |
//! | watching | an event that cannot be decoded | waiting | count it; back off, list | `a_malformed_event_causes_a_relist_and_is_counted` |
//! | verifying | a page | watching | discard its item; watch from `last` | `a_watch_that_sends_nothing_is_closed_and_the_server_is_verified` |
//! | verifying | 410, "too large resource version", or a page from before `last` | listing, or streaming | list with the version unset, at once | `a_restored_server_that_sends_nothing_is_detected` |
//! | verifying | 429 | waiting | wait as requested, watch from `last` | `a_failed_verification_is_followed_by_the_watch` |
//! | verifying | any other failure | waiting | back off, watch from `last` | `a_failed_verification_is_followed_by_the_watch` |
//! | waiting | the server is back after a connection failure | any | the delayed request, after up to 750 ms | `informers_resume_within_two_seconds_of_the_servers_recovery`, `a_server_that_answers_only_probes_does_not_shorten_the_backoff` |
//! | waiting | the wait is over | any | the delayed request | `a_429_honours_retry_after_and_does_not_relist` |
//! | any | stop | stopped | drop the request; nothing more is queued | `stop_drops_the_request_and_ends_the_task`, `stop_is_prompt_during_backoff_list_and_backpressure` |
//!
//! No cycle of these transitions lists forever without a wait. A failed list is followed by a wait, or first by one
//! list of another kind (plain after streaming, consistent after any). A watch is followed by a list only after a wait
//! or after the idle timeout.
//!
//! "Wait as requested" means to wait for the seconds in `Retry-After` or `retryAfterSeconds`, but at most one minute.
//! If the value is absent, a date, not a number, or below the shortest backoff (0, for example), the backoff decides.
//!
//! # When a streaming list fails
//!
//! A plain list follows at once, whatever the reason, as in client-go. It is a different kind of request: a server that
//! refuses or breaks the streaming list may answer it, and if it fails, too, the reflector backs off. Streaming is not
//! given up, though. "Not supported" may come from a server that is upgraded during the informer's life, or from one of
//! several servers behind one address, and a stream that was cut may succeed the next time. So the next list is a
//! streaming one again, which costs one refused request. After two failures in a row, streaming lists pause for ten
//! minutes, because some failures cost more: a server that ignores the parameter is detected only by the idle timeout,
//! and a cut discards what was read.
//!
//! # When versions go back
//!
//! A server that was restored from a backup continues at an earlier version. An informer that has seen later versions
//! would wait for them forever, with a cache of a state that no longer exists. It detects this in four ways:
//! - The first watch after a connection was lost, refused or reset sends nothing for some seconds, and the server, verified
//!   for one item, answers with a lower version.
//! - A watch sends a version that is lower than `last`, where both are decimal.
//! - A list or a watch is answered with "too large resource version".
//! - The watch sends nothing at all. kube-apiserver behaves like this: it holds back every event and bookmark up to the
//!   requested version.
//!
//! Each of these leads to a consistent list, whose version is authoritative. The initial events of a streaming list are
//! exempt, since they are not ordered.
//!
//! A restore cannot be detected once the server has passed the last version that the informer saw: the watch then
//! resumes in a history that the informer does not know. Therefore raise the revision when you restore etcd
//! (`etcdutl snapshot restore --bump-revision … --mark-compacted`).

mod backoff;
mod driver;
mod idle;
mod joined_chunks;
mod phase;
mod reuse;
mod server_recovery;
mod state_machine;
mod streaming;
#[cfg(test)]
mod tests;
mod verify;
mod version_order;

pub use driver::Reflector;
pub(crate) use server_recovery::ServerRecovery;
