package permissions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"
)

// AccountsFile is the file that the configuration of a NATS server includes. It holds public keys only.
const AccountsFile = "accounts.conf"

// Options configure the account of the services.
type Options struct {
	Prefix string // of subjects; "" = the default
	Limits string // of JetStream, such as {max_file: 10GB}; "" = those of the server
}

// WriteFiles writes AccountsFile and the seed of each user to dir, which is created. A seed that exists is kept, so that a
// repeated call changes permissions only; without its file, a user gets a new key. It returns the paths of the seeds that it
// has made.
func WriteFiles(dir string, o Options) (created []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder: %w", err)
	}
	users := []string{SystemUser}
	for _, role := range Roles() {
		users = append(users, string(role))
	}
	public := map[string]string{}
	for _, user := range users {
		path := SeedFile(dir, user)
		key, isNew, err := seed(path)
		if err != nil {
			return created, err
		}
		if isNew {
			created = append(created, path)
		}
		public[user] = key
	}
	text, err := accounts(o, public)
	if err != nil {
		return created, err
	}
	text = "# Written by agentbus nats-config. Include it in the configuration of each NATS server.\n" + text
	return created, os.WriteFile(filepath.Join(dir, AccountsFile), []byte(text), 0o600)
}

// SeedFile is the path of the seed of a user.
func SeedFile(dir, user string) string { return filepath.Join(dir, user+".nk") }

// seed returns the public key of the seed at path, and creates the seed if the file does not exist.
func seed(path string) (public string, isNew bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return create(path)
	}
	if err != nil {
		return "", false, fmt.Errorf("read a seed: %w", err)
	}
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(text))))
	if err != nil {
		return "", false, fmt.Errorf("read the seed %s: %w; remove the file for a new one", path, err)
	}
	defer pair.Wipe()
	public, err = pair.PublicKey()
	if err == nil && !nkeys.IsValidPublicUserKey(public) {
		err = fmt.Errorf("the seed %s is not that of a user; remove the file for a new one", path)
	}
	return public, false, err
}

func create(path string) (public string, isNew bool, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", false, fmt.Errorf("create an nkey: %w", err)
	}
	defer pair.Wipe()
	text, err := pair.Seed()
	if err != nil {
		return "", false, err
	}
	if public, err = pair.PublicKey(); err != nil {
		return "", false, err
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		return "", false, fmt.Errorf("write a seed: %w", err)
	}
	return public, true, nil
}
