// Package keyseal encrypts keys at rest: a copy of the database alone reveals none of them.
package keyseal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// MinSecret is the shortest secret, in bytes.
const MinSecret = 16

// Vault seals and opens. It is safe for concurrent use.
type Vault struct{ aead cipher.AEAD }

// The purposes of vaults. What is sealed for one purpose cannot be opened for another, even under the same secret.
const (
	HubAgentKeys   = "agentbus hub: keys of agents"
	AgentServerKey = "agentbus agent-server: key for the hub"
	WebhookSecrets = "agentbus gateway: secrets of webhooks"
)

// New returns a vault for a purpose, under a secret of at least [MinSecret] random bytes, the same for every process on
// one database.
func New(secret []byte, purpose string) (*Vault, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the secret has %d bytes; at least %d random bytes are needed", len(secret), MinSecret)
	}
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the vault's key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("open the vault: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("open the vault: %w", err)
	}
	return &Vault{aead}, nil
}

// Seal encrypts a key of the owner, usually an agent's id. Sealed twice it looks different.
func (v *Vault) Seal(owner, key string) string {
	sealed := v.aead.Seal(nil, nil, []byte(key), []byte(owner)) //nolint:gosec // no nonce is given: the AEAD makes a random one
	return base64.RawStdEncoding.EncodeToString(sealed)
}

// Open gives back what Seal has taken, for the same owner alone.
func (v *Vault) Open(owner, sealed string) (string, error) {
	raw, err := base64.RawStdEncoding.DecodeString(sealed)
	if err != nil {
		return "", fmt.Errorf("read the sealed key of %s: %w", owner, err)
	}
	key, err := v.aead.Open(nil, nil, raw, []byte(owner))
	if err != nil {
		return "", fmt.Errorf("open the sealed key of %s: it was sealed under another secret: %w", owner, err)
	}
	return string(key), nil
}

// NewSecret returns a secret for a vault of one's own.
func NewSecret() []byte { return []byte(rand.Text()) }
