package check

import "time"

// skewStep is the amount by which clocks are set wrong, in either direction.
const skewStep = 10 * time.Minute

// steady returns what a correct clock would have shown at a time that a process noted, whose clock may have been wrong.
// It needs a time of the broker that is less than half a step away.
func steady(noted, broker time.Time) time.Time {
	return noted.Add(-noted.Sub(broker).Round(skewStep))
}
