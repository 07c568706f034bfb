package host

import (
	"math"
	"testing"
	"time"
)

func TestDelaysAreRoundedUpToMillisecondsAndBounded(t *testing.T) {
	for delay, wanted := range map[time.Duration]uint32{
		0: 0, -1: 0, 1: 1, 1500 * time.Millisecond: 1500, math.MaxInt64: 1<<31 - 1,
	} {
		if found := Milliseconds(delay); found != wanted {
			t.Errorf("%v: %d", delay, found)
		}
	}
}
