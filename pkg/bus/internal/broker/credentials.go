package broker

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Credentials are the files by which a process authenticates to NATS, and NATS to it. All are optional.
type Credentials struct {
	CredsFile string // a JWT and its seed, of a server with operators
	NKeyFile  string // the seed of an nkey, of a server with users in its configuration
	CAFile    string // the certificates that NATS servers may have; "" = those of the machine
	CertFile  string // the certificate of this process, with KeyFile, for servers that verify their clients
	KeyFile   string
}

// options returns the options of a connection. It reads the seed: a missing file is an error at the start, not later.
func (c Credentials) options() ([]nats.Option, error) {
	var all []nats.Option
	if c.CredsFile != "" && c.NKeyFile != "" {
		return nil, errors.New("NATS credentials: there is a credentials file and an nkey file; set one of them")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("NATS credentials: a certificate needs its key, and a key its certificate; set both or none")
	}
	if c.CredsFile != "" {
		all = append(all, nats.UserCredentials(c.CredsFile))
	}
	if c.NKeyFile != "" {
		nkey, err := nats.NkeyOptionFromSeed(c.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the nkey seed %s: %w", c.NKeyFile, err)
		}
		all = append(all, nkey)
	}
	if c.CAFile != "" {
		all = append(all, nats.RootCAs(c.CAFile))
	}
	if c.CertFile != "" {
		all = append(all, nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return all, nil
}
