package sdk

import "errors"

// As many attempts as client-go's retry.DefaultRetry makes.
const attempts = 5

// RetryOnConflict repeats attempt while it answers ErrConflict, at most five times in all. Each attempt must read the object anew, with
// Client.Get: the cache may be as old as the state that just conflicted.
//
// Returning the conflict is as good where one object is changed: the host runs the reconcile again.
func RetryOnConflict(attempt func() error) error {
	for range attempts - 1 {
		if err := attempt(); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return attempt()
}
