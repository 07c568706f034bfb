package sdk

import "errors"

// attempts is the number of attempts of client-go's retry.DefaultRetry.
const attempts = 5

// RetryOnConflict repeats attempt while it returns ErrConflict, up to five attempts in total. Each attempt must read the object again with
// [Client.Get], because the cache may still hold the state that conflicted.
//
// When a reconcile changes a single object, returning the conflict serves as well: the host runs the reconcile again.
func RetryOnConflict(attempt func() error) error {
	for range attempts - 1 {
		if err := attempt(); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return attempt()
}
