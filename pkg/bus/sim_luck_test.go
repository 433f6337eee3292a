package bus

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
)

// dice is the luck of a run. Each call draws from a place of its own, named by who asks for what for the how-manieth
// time, so that a seed gives every call the same luck in whatever order the goroutines come.
type dice uint64

func (d dice) at(place ...string) *rand.Rand {
	h := fnv.New64a()
	for _, name := range place {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(uint64(d), h.Sum64()))
}

func spell(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// faults are the chances that something goes wrong with a call.
type faults struct {
	lost    float64 // the request does not arrive
	mute    float64 // it does, and the answer is lost
	late    float64 // it arrives when the caller has given up
	twice   float64 // a second copy of it arrives later
	refused float64 // no leader: nothing is stored, and the caller gets an error
	stall   float64 // three replicas: a write takes longer to commit than the caller waits
	dropped float64 // three replicas: the leader falls, and what it had not committed with it
	lag     float64 // three replicas: one of them hangs behind for seconds
	unheard float64 // a live message does not arrive
	outage  float64 // the broker is away for seconds
	freeze  float64 // the calling process stops for longer than its claim lasts, and continues
}

// draw chooses what goes wrong in a run: some kinds of faults, each now and then or often.
func (d dice) draw() faults {
	r := d.at("faults")
	rate := func(most float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return most * (0.1 + 0.9*r.Float64())
	}
	return faults{
		lost: rate(0.15), mute: rate(0.2), late: rate(0.1), twice: rate(0.1), refused: rate(0.1), stall: rate(0.2),
		dropped: rate(0.1), lag: rate(0.3), unheard: rate(0.5), outage: rate(0.01), freeze: rate(0.02),
	}
}

// fate is what happens to one call.
type fate struct {
	there, back time.Duration // how long the request and its answer take
	lost, mute  bool
	refused     bool
	again       time.Duration // a second copy comes that much later; 0 = none does
	outage      time.Duration // from now on
	freeze      time.Duration // of the caller, before the call

	// On three replicas.
	commit  time.Duration
	dropped bool
	replica int              // that answers a direct get; 0 = the leader
	lags    [2]time.Duration // until the followers have what is committed

	page int // messages in one page
}

const (
	quick = 200 * time.Microsecond
	slow  = 5 * time.Millisecond
)

func (f faults) fate(r *rand.Rand) fate {
	chance := func(p float64) bool { return r.Float64() < p }
	is := fate{
		there: spell(r, quick, slow), back: spell(r, quick, slow), lost: chance(f.lost), mute: chance(f.mute),
		refused: chance(f.refused), commit: spell(r, quick, slow), dropped: chance(f.dropped), replica: r.IntN(3),
		lags: [2]time.Duration{spell(r, quick, slow), spell(r, slow, 20*slow)}, page: 1 + r.IntN(5),
	}
	if chance(f.late) {
		is.there = spell(r, broker.AnswerWait, 6*broker.AnswerWait)
	}
	if chance(f.twice) {
		is.again = spell(r, quick, 4*broker.AnswerWait)
	}
	if chance(f.stall) {
		is.commit = spell(r, broker.AnswerWait/2, 3*broker.AnswerWait)
	}
	if chance(f.lag) {
		is.lags[r.IntN(2)] = spell(r, 20*slow, 3*time.Second)
	}
	if chance(f.outage) {
		is.outage = spell(r, time.Second/2, 12*time.Second)
	}
	if chance(f.freeze) {
		is.freeze = spell(r, defaultAckWait/2, 3*defaultAckWait)
	}
	return is
}
