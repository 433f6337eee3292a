// Package id makes and checks the identifiers of requests, threads, actions, messages and tool calls.
//
// Every identifier becomes one token of a NATS subject, so nothing reaches a subject unchecked: see [Valid].
package id

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The prefixes of our identifiers.
const (
	Request   = "req"
	Thread    = "thr"
	Subthread = "sub" // a thread on which an agent works for another: no list of threads has it
	Action    = "act"
	Message   = "msg"
	Call      = "call"
	Steer     = "steer"
	Key       = "ak"
)

// MaxLength is the longest identifier that is accepted from outside.
const MaxLength = 64

// text is base32 in ascending order of its characters, so that ids made later sort later.
var text = base32.HexEncoding.WithPadding(base32.NoPadding)

// New returns a fresh identifier, for example "req_0cq6…": a UUIDv7 (time-ordered) in 26 lower-case characters.
func New(prefix string) string {
	u := uuid.Must(uuid.NewV7()) // fails only when the system has no randomness left
	return prefix + "_" + encode(u[:])
}

// UUID returns a random UUID, for programs that take no other name.
func UUID() string { return uuid.NewString() }

// Derive returns the identifier that belongs to parts: the same parts give the same identifier, in every process.
func Derive(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return prefix + "_" + encode(h.Sum(nil)[:16])
}

// DeriveUUID is Derive for programs that take a UUID alone.
func DeriveUUID(parts ...string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("agentbus:"+strings.Join(parts, "\x00"))).String()
}

// Valid reports whether s matches ^[A-Za-z0-9_-]{1,64}$, the only identifiers that may come near a subject.
func Valid(s string) bool {
	if len(s) == 0 || len(s) > MaxLength {
		return false
	}
	for i := range len(s) {
		if !isIDByte(s[i]) {
			return false
		}
	}
	return true
}

func isIDByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func encode(b []byte) string { return strings.ToLower(text.EncodeToString(b)) }

// Time returns the creation time that s contains: a UUIDv7, as text or as [New] writes it after a prefix.
func Time(s string) (time.Time, bool) {
	u, err := uuid.Parse(s)
	if _, tail, ok := strings.Cut(s, "_"); ok {
		var raw []byte
		if raw, err = text.DecodeString(strings.ToUpper(tail)); err == nil {
			u, err = uuid.FromBytes(raw)
		}
	}
	if err != nil || u.Version() != 7 {
		return time.Time{}, false
	}
	return time.Unix(u.Time().UnixTime()), true
}
