//go:build !race

package bus

const (
	raceDetector = false
	seedsEach    = 120
)
