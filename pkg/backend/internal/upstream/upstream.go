// Package upstream is shared by backends that call a provider's API over HTTP: a client with limits, and the error
// messages for operators. It is independent of the providers' formats.
package upstream

import (
	"encoding/json" // the SDKs decode with it, and we look at their errors
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
)

// StatusOverloaded is what Anthropic and servers after its model answer while they have no capacity left.
const StatusOverloaded = 529

// API names a provider in its faults. Name and the variables are meant for people; Key never shows up in a message, and Address only
// in the cause, for logs: clients must not learn where the operator's servers are.
type API struct {
	Own     bool   // the server is the provider's own, which wants a key
	Address string // of a server that is not the provider's own
	Name    string // "OpenAI"
	Key     string // the secret itself
	KeyEnv  string // the variable that holds it
	BaseEnv string // the variable that holds the address
}

// Keyed returns an error if the provider requires a key and none is configured.
func (a API) Keyed() error {
	if !a.Own || a.Key != "" {
		return nil
	}
	return apierr.New(apierr.AgentError, "the key of %s is missing; set %s", a.Name, a.KeyEnv)
}

// Probed returns why a provider would not answer a turn, after its answer to a question about its models. An answer other than a
// refused key or a failure of the server shows that it would: not every server has such a list, or lets every key read it.
func (a API) Probed(res *http.Response, err error) error {
	switch {
	case res == nil && err != nil:
		return a.Unreachable(err)
	case res == nil:
		return nil
	case res.StatusCode == http.StatusUnauthorized:
		return apierr.Wrap(a.located(backend.ErrKeyRefused), apierr.AgentError, "%s", a.sentence(res.StatusCode, ""))
	case res.StatusCode >= http.StatusInternalServerError:
		return a.Refused(res.StatusCode, res.Header, "", "")
	default:
		return nil
	}
}

// Refused is the fault for an answer with a status of 400 or more. Detail is the provider's own explanation, of which a
// short cleaned part is passed on where it helps; id is its name for the request, for logs.
func (a API) Refused(status int, header http.Header, detail, id string) *apierr.Error {
	cause := fmt.Errorf("%s answered %d, request %q", a.Name, status, id)
	switch {
	case tooLong(status, detail):
		cause = fmt.Errorf("%w: %w", backend.ErrTooLong, cause)
	case status == http.StatusNotFound:
		cause = fmt.Errorf("%w: %w", backend.ErrUnavailable, cause)
	}
	f := apierr.Wrap(a.located(cause), apierr.AgentError, "%s", a.sentence(status, a.clean(detail)))
	f.Retryable = worthRetry(status)
	if f.Retryable {
		f.RetryAfter = RetryAfter(header, time.Now())
	}
	return f
}

func (a API) sentence(status int, detail string) string {
	switch status {
	case http.StatusUnauthorized:
		return fmt.Sprintf("%s did not accept the API key; check %s", a.Name, a.KeyEnv)
	case http.StatusForbidden:
		return fmt.Sprintf("%s does not allow this to the API key; check what the key in %s may use", a.Name, a.KeyEnv)
	case http.StatusNotFound:
		return fmt.Sprintf("%s does not have the model or the address; check the agent's model and %s%s",
			a.Name, a.BaseEnv, saying(detail))
	case http.StatusRequestEntityTooLarge:
		return fmt.Sprintf("the conversation is too large for %s; start a new thread", a.Name)
	case http.StatusTooManyRequests:
		return fmt.Sprintf("%s limits the rate of requests; try again later", a.Name)
	case StatusOverloaded:
		return fmt.Sprintf("%s is overloaded; try again later", a.Name)
	}
	if worthRetry(status) {
		return fmt.Sprintf("%s has a problem (status %d); try again later", a.Name, status)
	}
	return fmt.Sprintf("%s did not accept the request (status %d); change the message or the agent's configuration%s",
		a.Name, status, saying(detail))
}

// longTexts are parts of the messages in which providers and compatible servers say that a conversation is too long.
func longTexts() []string {
	return []string{
		"prompt is too long", "context length", "context_length", "context window", "context size", "maximum context", "too many tokens",
		"input is too long", "exceeds the maximum number of tokens",
	}
}

// tooLong reports whether an error says that the conversation is longer than the model can read.
func tooLong(status int, detail string) bool {
	if status == http.StatusRequestEntityTooLarge {
		return true
	}
	detail = strings.ToLower(detail)
	return status == http.StatusBadRequest && slices.ContainsFunc(longTexts(), func(text string) bool { return strings.Contains(detail, text) })
}

func worthRetry(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests ||
		status == http.StatusRequestTimeout || status == http.StatusConflict
}

func saying(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}

// Broken returns the API error for an answer that ended early, after some chunks. Res is nil without a response; err is
// nil if the stream just ended.
func (a API) Broken(res *http.Response, chunks int, err error) *apierr.Error {
	switch {
	case res == nil:
		return a.Unreachable(err)
	case res.StatusCode >= http.StatusBadRequest: // with a body that is not of the API
		return a.Refused(res.StatusCode, res.Header, "", "")
	case isSyntax(err):
		return a.Malformed(err)
	case err == nil && chunks == 0 && mediaType(res) == "text/html":
		return a.Stranger()
	case err == nil && chunks == 0 && mediaType(res) == "application/json":
		return a.Malformed(errors.New("an answer in JSON in place of a stream"))
	default:
		return a.Cut(err)
	}
}

func isSyntax(err error) bool {
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return true
	}
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok
}

// mediaType is the type of an answer's body, "" when it does not say.
func mediaType(res *http.Response) string {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// Unreachable is the fault for a call that got no answer at all.
func (a API) Unreachable(cause error) *apierr.Error {
	if errors.Is(cause, ErrStalled) {
		return a.retryable(cause, "%s accepts connections but does not answer; try again later", a.Name)
	}
	return a.retryable(cause, "%s does not answer; check the network and %s, or try again later", a.Name, a.BaseEnv)
}

// Cut is the fault for an answer that ended before its end. A nil cause means that the stream just stopped.
func (a API) Cut(cause error) *apierr.Error {
	if errors.Is(cause, ErrStalled) {
		return a.retryable(cause, "%s stopped in the middle of its answer; try again", a.Name)
	}
	if cause == nil {
		cause = errors.New("the stream ended without its finish marker")
	}
	return a.retryable(cause, "the answer of %s broke off; try again", a.Name)
}

// Malformed is the fault for an answer, or a chunk of it, that cannot be read.
func (a API) Malformed(cause error) *apierr.Error {
	return a.retryable(cause, "%s sent something that cannot be read; try again", a.Name)
}

// Stranger returns the API error for a web page instead of an answer: the server at the address is not the API.
func (a API) Stranger() *apierr.Error {
	return apierr.Wrap(a.located(nil), apierr.AgentError, "a web page answers in place of %s; check %s", a.Name, a.BaseEnv)
}

// located adds the address of the server to a cause, which may be nil.
func (a API) located(cause error) error {
	if failure, ok := errors.AsType[*url.Error](cause); ok && failure == cause { //nolint:errorlint // one within another error is kept as it is
		cause = failure.Err // the address and its query are not logged twice
	}
	switch {
	case a.Address == "":
		return cause
	case cause == nil:
		return errors.New("at " + a.Address)
	default:
		return fmt.Errorf("at %s: %w", a.Address, cause)
	}
}

func (a API) retryable(cause error, format string, args ...any) *apierr.Error {
	f := apierr.Wrap(a.located(cause), apierr.AgentError, format, args...)
	f.Retryable = true
	return f
}

// maxDetail is how many runes of a provider's explanation go into a message.
const maxDetail = 200

// clean makes one short line of a provider's text, without control characters, without the server's address and without anything
// that looks like a secret.
func (a API) clean(detail string) string {
	if a.Key != "" {
		detail = strings.ReplaceAll(detail, a.Key, "…")
	}
	words := strings.FieldsFunc(detail, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' })
	for i, w := range words {
		if looksSecret(w) || a.names(w) {
			words[i] = "…"
		}
	}
	runes := []rune(strings.ToValidUTF8(strings.Join(words, " "), ""))
	if len(runes) > maxDetail {
		return string(runes[:maxDetail]) + "…"
	}
	return string(runes)
}

// names reports whether a word contains the host of the server.
func (a API) names(word string) bool {
	u, err := url.Parse(a.Address)
	if err != nil || u.Hostname() == "" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	word = strings.ToLower(strings.Trim(word, `"'.,:;()[]{}<>`))
	name, _, _ := strings.Cut(word, ":")
	return name == host || strings.Contains(word, "//"+host) || strings.ContainsAny(host, ".:") && strings.Contains(word, host)
}

// looksSecret matches the prefixes of keys, and any long word with digits that is not a path or a URL.
func looksSecret(word string) bool {
	word = strings.Trim(word, `"'.,:;()[]{}<>`)
	if strings.Contains(word, "sk-") || strings.HasPrefix(word, "ak_") {
		return true
	}
	return len(word) >= 32 && strings.ContainsAny(word, "0123456789") && !strings.Contains(word, "/")
}

// RetryAfter reads how long the provider wants to be left alone: "retry-after-ms", or "Retry-After" in seconds or as a
// date. 0 = not said.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return bounded(ms * float64(time.Millisecond))
	}
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return bounded(seconds * float64(time.Second))
	}
	if date, err := http.ParseTime(value); err == nil {
		return bounded(float64(date.Sub(now)))
	}
	return 0
}

// bounded keeps a wait between nothing and a day, whatever a header says.
func bounded(ns float64) time.Duration {
	if !(ns > 0) { // also NaN
		return 0
	}
	return time.Duration(min(ns, float64(24*time.Hour)))
}
