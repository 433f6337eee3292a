package loop

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/transcript"
)

// eventWriter writes events to the log and folds them into the state, so that the state always equals the fold of the
// log. It is safe for concurrent use, except that direct reads of the state need exclusive access.
type eventWriter struct {
	now            func() time.Time
	log            Log
	requestID      string
	messageID      string
	epoch          uint64
	validateCustom func(event.Custom) error // see Request

	mu       sync.Mutex
	state    *transcript.State
	lost     error // why the log cannot be written any more
	grouping bool  // events are collected in group until they are written atomically
	group    []event.Body
}

func (j *eventWriter) emit(body event.Body) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.write(body)
}

// write must be called with mu held.
func (j *eventWriter) write(body event.Body) error {
	if j.lost != nil {
		return j.lost
	}
	if j.grouping {
		j.group = append(j.group, body)
	} else if err := j.log.Emit(body); err != nil {
		err = fmt.Errorf("write %s event: %w", body.Name(), err)
		if apierr.CodeOf(err) != apierr.MessageTooLarge { // the error concerns this event only
			j.lost = err
		}
		return err
	}
	j.state.Fold(event.Event{RequestID: j.requestID, Time: j.now(), Body: body})
	return nil
}

// atomically writes the events that do emits atomically. If do fails they are written too, because they are folded already.
func (j *eventWriter) atomically(do func() error) error {
	j.mu.Lock()
	inside := j.grouping
	j.grouping = true
	j.mu.Unlock()
	err := do()
	if inside {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	bodies := j.group
	j.grouping, j.group = false, nil
	if j.lost != nil || len(bodies) == 0 {
		return errors.Join(err, j.lost)
	}
	if lost := j.log.Emit(bodies...); lost != nil {
		j.lost = fmt.Errorf("write %s event: %w", bodies[0].Name(), lost)
		return j.lost
	}
	return err
}

// endTurn writes the end of a turn or of the request, together with the state of the agent's session.
func (j *eventWriter) endTurn(state backend.State, end event.Body) error {
	if state == (backend.State{}) || state == j.state.Session() {
		return j.emit(end)
	}
	return j.atomically(func() error {
		if err := j.emit(event.AgentSession{SessionID: clean(state.ID), Used: state.Used}); err != nil {
			return err
		}
		return j.emit(end)
	})
}

// open writes the start event of the next block, made by body, and returns the block's id.
func (j *eventWriter) open(body func(event.Block) event.Body) (blockID string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	index := j.state.NextBlock()
	blockID = "b" + strconv.Itoa(index)
	if j.epoch > 1 {
		blockID = "e" + strconv.FormatUint(j.epoch, 10) + blockID
	}
	return blockID, j.write(body(event.Block{
		MessageID: j.messageID, BlockID: blockID, Stage: event.StageStart, BlockIndex: &index,
	}))
}

func (j *eventWriter) delta(blockID string, index int) event.Block {
	return event.Block{MessageID: j.messageID, BlockID: blockID, Stage: event.StageDelta, DeltaIndex: &index}
}

func (j *eventWriter) stop(blockID string) event.Block {
	return event.Block{MessageID: j.messageID, BlockID: blockID, Stage: event.StageStop}
}

// text returns the text of an open block so far.
func (j *eventWriter) text(blockID string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.OpenText(blockID)
}

// failed returns why the log cannot be written any more, or nil.
func (j *eventWriter) failed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// storeOutput stores the content of an output that the log only refers to.
func (j *eventWriter) storeOutput(callID, content string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.Keep(callID, content)
}
