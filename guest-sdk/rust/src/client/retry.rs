//! Repeating a read-modify-write that met a conflict.

use crate::ApiError;

/// The number of attempts of client-go's `retry.DefaultRetry`.
const ATTEMPTS: u32 = 5;

/// Repeats `attempt` while it returns [`ApiError::Conflict`], up to five attempts in total, as client-go's `retry.RetryOnConflict`
/// does. Each attempt must read the object again with [`Client::get`](super::Client::get), because the cache may still hold the state
/// that conflicted.
///
/// When a reconcile changes a single object, returning the conflict serves as well: the host runs the reconcile again.
///
/// # Errors
/// The last conflict, or any other error immediately.
pub fn retry_on_conflict<T>(mut attempt: impl FnMut() -> Result<T, ApiError>) -> Result<T, ApiError> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if error.is_conflict() => {}
            result => return result,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict() -> ApiError {
        ApiError::Conflict { message: "changed".into(), resource_version: None }
    }

    #[test]
    fn a_conflict_is_retried_until_an_attempt_succeeds() {
        let mut attempts = 0;
        let result = retry_on_conflict(|| {
            attempts += 1;
            if attempts < 3 { Err(conflict()) } else { Ok(attempts) }
        });
        assert_eq!(result.unwrap(), 3);
    }

    #[test]
    fn a_persistent_conflict_is_returned_after_five_attempts() {
        let mut attempts = 0;
        let result: Result<(), _> = retry_on_conflict(|| {
            attempts += 1;
            Err(conflict())
        });
        assert!(result.unwrap_err().is_conflict());
        assert_eq!(attempts, 5);
    }

    #[test]
    fn any_other_error_is_returned_immediately() {
        let mut attempts = 0;
        let result: Result<(), _> = retry_on_conflict(|| {
            attempts += 1;
            Err(ApiError::Forbidden("no".into()))
        });
        assert!(matches!(result, Err(ApiError::Forbidden(_))));
        assert_eq!(attempts, 1);
    }
}
