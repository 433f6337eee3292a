package check

import (
	"testing"
	"time"
)

func TestAWrongClockIsCorrected(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, skewStep, -skewStep} {
		for _, after := range []time.Duration{0, time.Second, time.Minute, -time.Second} {
			if got := steady(begin.Add(after+ahead), begin); !got.Equal(begin.Add(after)) {
				t.Errorf("%v after, %v ahead: got %v", after, ahead, got.Sub(begin))
			}
		}
	}
}
