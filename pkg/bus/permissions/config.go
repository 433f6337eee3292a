package permissions

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// SystemUser is the user of the system account, which sees the server's state and none of our subjects.
const SystemUser = "system"

// accounts returns the accounts of a NATS server as part of its configuration file: one account with a user for each role,
// and the system account. Keys are public nkeys by role, and by [SystemUser].
func accounts(o Options, keys map[string]string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "accounts {\n  AGENTBUS {\n    jetstream: %s\n    users: [\n", cmp.Or(o.Limits, "enabled"))
	for _, role := range Roles() {
		allowed, err := Of(role, o.Prefix)
		if err != nil {
			return "", err
		}
		if err := writeUser(&b, string(role), keys, &allowed); err != nil {
			return "", err
		}
	}
	b.WriteString("    ]\n  }\n  SYS {\n    users: [\n")
	if err := writeUser(&b, SystemUser, keys, nil); err != nil {
		return "", err
	}
	b.WriteString("    ]\n  }\n}\nsystem_account: SYS\n")
	return b.String(), nil
}

func writeUser(b *strings.Builder, name string, keys map[string]string, allowed *Allowed) error {
	key := keys[name]
	if key == "" {
		return fmt.Errorf("user %s has no nkey", name)
	}
	fmt.Fprintf(b, "      { # %s\n        nkey: %s\n", name, key)
	if allowed != nil {
		b.WriteString("        permissions {\n")
		writeSubjects(b, "publish", allowed.Publish)
		writeSubjects(b, "subscribe", allowed.Subscribe)
		b.WriteString("        }\n")
	}
	b.WriteString("      }\n")
	return nil
}

func writeSubjects(b *strings.Builder, verb string, subjects []string) {
	fmt.Fprintf(b, "          %s {\n            allow: [\n", verb)
	for _, subject := range subjects {
		fmt.Fprintf(b, "              %s\n", strconv.Quote(subject))
	}
	b.WriteString("            ]\n          }\n")
}
