use crate::ApiError;

/// As many attempts as client-go's `retry.DefaultRetry` makes.
const ATTEMPTS: u32 = 5;

/// Repeats `attempt` while it answers [`ApiError::Conflict`], at most five times in all. Each attempt must read the object
/// anew (with [`get`](super::get): the cache may be as old as the state that just conflicted).
///
/// Returning the conflict is as good where one object is changed: the host runs the reconcile again.
///
/// # Errors
/// The last conflict, or any other error at once.
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
    fn a_conflict_is_tried_again_until_it_succeeds() {
        let mut attempts = 0;
        let result = retry_on_conflict(|| {
            attempts += 1;
            if attempts < 3 { Err(conflict()) } else { Ok(attempts) }
        });
        assert_eq!(result.unwrap(), 3);
    }

    #[test]
    fn a_conflict_that_stays_is_returned_after_five_attempts() {
        let mut attempts = 0;
        let result: Result<(), _> = retry_on_conflict(|| {
            attempts += 1;
            Err(conflict())
        });
        assert!(result.unwrap_err().is_conflict());
        assert_eq!(attempts, 5);
    }

    #[test]
    fn any_other_error_is_returned_at_once() {
        let mut attempts = 0;
        let result: Result<(), _> = retry_on_conflict(|| {
            attempts += 1;
            Err(ApiError::Forbidden("no".into()))
        });
        assert!(matches!(result, Err(ApiError::Forbidden(_))));
        assert_eq!(attempts, 1);
    }
}
