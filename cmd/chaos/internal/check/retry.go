package check

import "github.com/agentbus/agentbus/cmd/chaos/internal/oplog"

// The rare paths of keys that are used again.
const (
	PathBothRoutes = "key used on both routes"
	PathOtherBody  = "other body under a used key"
)

// codeMismatch is the code of an answer that refuses another body under a key.
const codeMismatch = "idempotency_mismatch"

// retries is the part of I6 that one key stands for one body, whatever route and gateway it is sent to. That it stands
// for one request is checked with the other posts.
func (r *Run) retries() []Violation {
	var found []Violation
	taken := map[ID]oplog.Entry{} // by key
	for _, e := range r.of(oplog.Post) {
		if e.Key == "" || e.Status/100 != 2 {
			continue
		}
		key := ID{e.Tenant, e.Key}
		if first, ok := taken[key]; ok && first.Body != e.Body {
			found = append(found, violation(ID{e.Tenant, e.Request}, "%s was taken with another body under key %s", e.Actor, e.Key))
			continue
		}
		taken[key] = e
	}
	for _, e := range r.of(oplog.Post) {
		first, ok := taken[ID{e.Tenant, e.Key}]
		if ok && e.Code == codeMismatch && first.Body == e.Body {
			found = append(found, violation(ID{e.Tenant, first.Request}, "%s was refused with the body that key %s stands for", e.Actor, e.Key))
		}
	}
	return found
}

// countRetries counts the rare paths of keys that are used again.
func (r *Run) countRetries(taken map[string]int) {
	routes := map[ID][2]bool{} // by key: whether it was taken without and with the stream
	for _, e := range r.of(oplog.Post) {
		if e.Key == "" {
			continue
		}
		if e.Code == codeMismatch {
			taken[PathOtherBody]++
		}
		if e.Status/100 != 2 {
			continue
		}
		used := routes[ID{e.Tenant, e.Key}]
		if e.Stream {
			used[1] = true
		} else {
			used[0] = true
		}
		routes[ID{e.Tenant, e.Key}] = used
	}
	for _, used := range routes {
		if used[0] && used[1] {
			taken[PathBothRoutes]++
		}
	}
}
