//! From the API server to the delta queue: list, watch, and what to do when either fails.
//!
//! The decisions are made by a pure machine; a driver does the requests and the waiting. `last` is the last resource version seen.
//! Every failure is shown in the informer's status until a list or a watch succeeds.
//!
//! | state | what happens | what follows |
//! |---|---|---|
//! | idle | start | streaming list, or plain list where the server has none; version `0` first, then `last`, unset when the server said that `last` is gone or unknown (B01, B07) |
//! | listing | page with a token | next page (paged only when the version is unset) |
//! | listing | last page | `Replaced`, watch from the list's version |
//! | listing | 410 of a token | one list without pages |
//! | listing | 410, or "too large resource version" | the same list with the version unset, once |
//! | listing | 429 | wait as asked, then the same page |
//! | listing | any other failure | back off, list anew from nothing |
//! | streaming | initial event | collected; `last` does not move (B04) |
//! | streaming | bookmark `initial-events-end` | `Replaced`, go on watching |
//! | streaming | request refused as not understood | plain list, from now on |
//! | streaming | ended, cut or silent | back off, start from nothing; the second time with a plain list |
//! | streaming | 410, "too large resource version", 429, other | as listing |
//! | watching | ADDED, MODIFIED, DELETED | delta, `last` moves |
//! | watching | BOOKMARK | `last` moves |
//! | watching | ended, cut or silent | watch from `last`; after a back off when it brought nothing and lasted less than a second (B05) |
//! | watching | 429, by status or ERROR event | wait as asked, watch from `last` |
//! | watching | connection refused or failed | back off, watch from `last` (B06) |
//! | watching | 5xx, by status or ERROR event | back off, watch from `last`; the fourth time without progress: list |
//! | watching | 410, any other ERROR, an event that cannot be read | back off, list |
//! | waiting | time is up | what the wait was for |
//! | any | stop | the request is dropped, nothing more is queued (B08) |

mod backoff;
mod driver;
mod machine;
mod phase;
#[cfg(test)]
mod tests;

pub use driver::Reflector;
