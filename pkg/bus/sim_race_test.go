//go:build race

package bus

// Under the race detector everything takes many times as long, and a part shows what it can show.
const (
	raceDetector = true
	seedsEach    = 15
)
