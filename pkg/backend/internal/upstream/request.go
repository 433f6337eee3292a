package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
)

// User returns the name under which a provider learns of a user: a hash, since providers ask for an identifier that does not
// identify a person.
func User(id string) string {
	sum := sha256.Sum256([]byte("agentbus user " + id))
	return hex.EncodeToString(sum[:16])
}

// SplitQuery takes the query off an address: SDKs append their paths to it. It returns the parameters of both the address and
// more, which has priority.
func SplitQuery(base string, more map[string]string) (string, map[string]string) {
	all := map[string]string{}
	if u, err := url.Parse(base); err == nil && u.RawQuery != "" {
		for name, values := range u.Query() {
			all[name] = values[len(values)-1]
		}
		u.RawQuery = ""
		base = u.String()
	}
	maps.Copy(all, more)
	return base, all
}
