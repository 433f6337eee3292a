package auth

import (
	"crypto/hmac"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// errTicket is the refusal of a ticket; it does not say what is wrong with it.
func errTicket() error {
	return apierr.New(apierr.AuthFailed, "the login is not valid any more; log in again at /login")
}

// Ticket returns a text that stands for a key until expires: a cookie with it can be sent in place of the key, which it does
// not contain. It ends earlier when the key is revoked or expires. It is signed with the hash of the key, which only servers
// have, so every gateway accepts it, and none stores it.
func (k *Keyring) Ticket(keyID string, expires time.Time) (string, error) {
	k.mu.RLock()
	r, known := k.byID[keyID]
	k.mu.RUnlock()
	if !known {
		return "", errTicket()
	}
	body := keyID + "." + strconv.FormatInt(expires.Unix(), 10)
	return body + "." + k.sign(r, body), nil
}

// VerifyTicket returns who holds the key of a ticket at time now. It fails as [Keyring.Verify] does.
func (k *Keyring) VerifyTicket(ticket string, now time.Time) (Principal, error) {
	at := strings.LastIndexByte(ticket, '.')
	if at < 0 {
		return Principal{}, errTicket()
	}
	body, signature := ticket[:at], ticket[at+1:]
	keyID, until, _ := strings.Cut(body, ".")
	k.mu.RLock()
	r, known := k.byID[keyID]
	loaded := k.loaded
	k.mu.RUnlock()
	if !loaded {
		return Principal{}, notLoaded()
	}
	if !known {
		r = Record{Hash: k.decoy}
	}
	same := hmac.Equal([]byte(k.sign(r, body)), []byte(signature))
	expires, err := strconv.ParseInt(until, 10, 64)
	if !known || !same || err != nil || !now.Before(time.Unix(expires, 0)) {
		return Principal{}, errTicket()
	}
	if err := r.open(now); err != nil {
		return Principal{}, errTicket()
	}
	return r.principal(), nil
}

// sign returns the signature of a ticket's body.
func (k *Keyring) sign(r Record, body string) string {
	key := digest(k.issuer.pepper, "ticket of "+base64.RawURLEncoding.EncodeToString(r.Hash))
	return base64.RawURLEncoding.EncodeToString(digest(key, body))
}
