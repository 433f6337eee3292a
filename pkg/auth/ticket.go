package auth

import (
	"crypto/hmac"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/go-json-experiment/json"
)

// errTicket is the refusal of a ticket; it does not say what is wrong with it.
func errTicket() error {
	return apierr.New(apierr.AuthFailed, "the login is not valid any more; log in again at /login")
}

// Ticket returns a text that stands for a credential until expires: a cookie with it can be sent in place of the credential,
// which it does not contain. It ends earlier when the credential is revoked or expires. It is signed with the hash of the
// credential's record, so every gateway accepts it, and none stores it. That of a token contains its record, which other
// gateways do not have.
func (k *Keyring) Ticket(keyID string, expires time.Time) (string, error) {
	k.mu.RLock()
	r, known := k.find(keyID)
	k.mu.RUnlock()
	if !known {
		return "", errTicket()
	}
	body := keyID + "." + strconv.FormatInt(expires.Unix(), 10)
	if strings.HasPrefix(keyID, TokenPrefix) {
		text, err := json.Marshal(r)
		if err != nil {
			return "", fmt.Errorf("encode a ticket: %w", err)
		}
		body += "." + base64.RawURLEncoding.EncodeToString(text)
	}
	return body + "." + k.sign(r, body), nil
}

// VerifyTicket returns who holds the credential of a ticket at time now. It fails as [Keyring.Verify] does.
func (k *Keyring) VerifyTicket(ticket string, now time.Time) (Principal, error) {
	at := strings.LastIndexByte(ticket, '.')
	if at < 0 {
		return Principal{}, errTicket()
	}
	body, signature := ticket[:at], ticket[at+1:]
	keyID, rest, _ := strings.Cut(body, ".")
	until, claims, isToken := strings.Cut(rest, ".")
	k.mu.RLock()
	r, known := k.byID[keyID]
	loaded := k.loaded
	k.mu.RUnlock()
	if !loaded {
		return Principal{}, notLoaded()
	}
	if isToken {
		r, known = decodeTicket(keyID, claims)
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
	if isToken {
		k.putToken(r, now)
	}
	return r.principal(), nil
}

// decodeTicket returns the record that the ticket of a token contains, before its signature is checked.
func decodeTicket(keyID, claims string) (r Record, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(claims)
	if err != nil || json.Unmarshal(text, &r) != nil {
		return Record{}, false
	}
	return r, r.ID == keyID && strings.HasPrefix(keyID, TokenPrefix)
}

// sign returns the signature of a ticket's body.
func (k *Keyring) sign(r Record, body string) string {
	key := digest(k.issuer.pepper, "ticket of "+base64.RawURLEncoding.EncodeToString(r.Hash))
	return base64.RawURLEncoding.EncodeToString(digest(key, body))
}
