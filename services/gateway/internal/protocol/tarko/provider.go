package tarko

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/redact"
	"github.com/go-json-experiment/json"
)

// Provider uploads pages of sessions to a server that shows them to everyone who has their address (share.provider of
// Tarko).
type Provider struct {
	address string
	shown   string // address without credentials, for clients
	client  *http.Client
}

// uploadTime is the time for a provider to accept a page.
const uploadTime = 12 * time.Second

// NewProvider returns the configured provider, or nil.
func NewProvider(c config.Share) (*Provider, error) {
	if c.Provider == "" {
		return nil, nil //nolint:nilnil // a nil Provider is one that is not there
	}
	allow, err := egress.ParseAllow(c.Allow)
	if err != nil {
		return nil, fmt.Errorf("allow: %w", err)
	}
	at, err := url.Parse(c.Provider)
	if err != nil {
		return nil, fmt.Errorf("provider: %w", redact.Error(err))
	}
	at.User, at.RawQuery = nil, "" // parts that may contain credentials
	return &Provider{c.Provider, at.String(), egress.NewClient(egress.Options{
		PlainHTTP: true, AnyPort: true, Allow: allow, Timeout: uploadTime, MaxBody: 64 << 10, MaxRedirects: -1,
	})}, nil
}

// upload sends a page to the provider, and returns its address there.
func (p *Provider) upload(ctx context.Context, about info, query, html string) (string, error) {
	body, contentType, err := form(about, query, html)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.address, body)
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := p.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return "", fmt.Errorf("it answers %s", response.Status)
	}
	var shown struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(said, &shown); err != nil {
		return "", err
	}
	if at, err := url.Parse(shown.URL); err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return "", errors.New("it answers without the url of the page")
	}
	return shown.URL, nil
}

// form returns the form that Tarko's server sends to a provider.
func form(about info, query, html string) (*bytes.Buffer, string, error) {
	tags, err := json.Marshal(about.Metadata.Tags)
	if err != nil {
		return nil, "", err
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	file, err := w.CreateFormFile("file", about.ID+".html")
	if err == nil {
		_, err = io.WriteString(file, html)
	}
	for _, field := range [][2]string{
		{"sessionId", about.ID}, {"type", "html"}, {"slug", slug(about)}, {"query", query}, {"name", about.Metadata.Name},
		{"tags", string(tags)},
	} {
		if err == nil {
			err = w.WriteField(field[0], field[1])
		}
	}
	return &body, w.FormDataContentType(), errors.Join(err, w.Close())
}

// maxSlug is the length of the name in an address, in bytes.
const maxSlug = 60

// slug returns the end of the page's address: words of the session's name, and random characters.
func slug(about info) string {
	words := strings.FieldsFunc(strings.ToLower(about.Metadata.Name), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	name := strings.Join(words, "-")
	if name == "" {
		name = "session"
	}
	sum := sha256.Sum256([]byte(about.ID))
	return name[:min(len(name), maxSlug)] + "-" + hex.EncodeToString(sum[:3])
}
