package check

import (
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

// The rare paths of what the streams have forgotten.
const (
	PathLateKey    = "key used again after retention"
	PathLateOther  = "other body under a key after retention"
	PathLateThread = "thread continued after retention"
)

// late is I21: requests that have expired from the streams are still found. A key creates no second request and nothing
// runs again; another body is refused; threads continue.
func (r *Run) late() []Violation {
	if r.Later == nil {
		return nil
	}
	var found []Violation
	for _, e := range r.of(oplog.Late) {
		id := ID{e.Tenant, e.Original}
		switch {
		case e.Other && e.Code != codeMismatch:
			found = append(found, violation(id, "another body under its key was answered with %d %s %s", e.Status, e.Code, e.Error))
		case e.Other:
		case e.Status/100 != 2:
			found = append(found, violation(id, "a late post on thread %s was answered with %d %s %s", e.Thread, e.Status, e.Code, e.Error))
		case e.Original != "" && e.Request != e.Original:
			found = append(found, violation(id, "its key made %s when the streams had forgotten it", e.Request))
		case e.Original == "" && string(e.End) != string(event.NameDone):
			found = append(found, violation(ID{e.Tenant, e.Request}, "it continued thread %s, which had expired from the streams, and ended with %q",
				e.Thread, e.End))
		}
	}
	for _, id := range sorted(r.Later.Logs) {
		if r.Logs[id] != nil && len(r.Later.Logs[id].Frames) > 0 {
			found = append(found, violation(id, "it had ended and ran again when the streams had forgotten it"))
		}
	}
	return append(found, r.ranLate()...)
}

// ranLate finds executions, after the streams had forgotten everything, of calls that the run had made.
func (r *Run) ranLate() []Violation {
	var found []Violation
	asked, before := r.asked(), map[string]int{}
	for _, x := range r.Executions {
		before[x.Call]++
	}
	for _, x := range r.Later.Executions {
		before[x.Call]--
		if c, ok := asked[x.Call]; ok && before[x.Call] == -1 {
			found = append(found, violation(c.id, "call %s of %s ran again when the streams had forgotten it", x.Call, x.Tool))
		}
	}
	return found
}

// countLate counts the rare paths of what the streams have forgotten.
func (r *Run) countLate(taken map[string]int) {
	for _, e := range r.of(oplog.Late) {
		switch {
		case e.Other:
			taken[PathLateOther]++
		case e.Original != "":
			taken[PathLateKey]++
		default:
			taken[PathLateThread]++
		}
	}
}
