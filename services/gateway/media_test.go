package gateway_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway"
)

// picture is a real PNG of about that many bytes, which no compression makes smaller.
func picture(t *testing.T, size int) []byte {
	t.Helper()
	noise := rand.NewChaCha8([32]byte{byte(size)})
	img := image.NewGray(image.Rect(0, 0, 64, max(size/64, 1)))
	if _, err := noise.Read(img.Pix); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// part is an image or file as a client sends it.
func part(kind, mediaType string, data []byte) string {
	return fmt.Sprintf(`{"type":%q,"mediaType":%q,"data":%q}`, kind, mediaType, base64.StdEncoding.EncodeToString(data))
}

func parts(list ...string) string {
	return `{"messages":[{"role":"user","content":[` + strings.Join(list, ",") + `]}]}`
}

// large lets bodies be large enough for pictures.
func large(d *gateway.Deps) { d.Config.Gateway.MaxBody = 24 << 20 }

func TestLargeDataIsStoredOutsideTheRequest(t *testing.T) {
	t.Parallel()
	b := start(t, large)
	small, big, huge := picture(t, 8<<10), picture(t, 60<<10), picture(t, 2<<20)
	requestID, threadID := b.accepted(parts(
		`{"type":"text","text":"look"}`, part("image", "image/png", small), part("image", "image/png", big), part("image", "image/png", huge)))
	accepted, err := b.bus.Accepted(t.Context(), b.log(requestID))
	if err != nil {
		t.Fatal(err)
	}
	content := accepted.Request.Messages[0].Content
	if !bytes.Equal(content[1].Data, small) || content[1].Ref != nil {
		t.Error("a small picture is not where it was")
	}
	for i, want := range map[int][]byte{2: big, 3: huge} {
		p := content[i]
		if len(p.Data) > 0 || p.Ref == nil || p.Ref.Size != int64(len(want)) || p.MediaType != "image/png" {
			t.Fatalf("part %d is %.200v, want a reference", i, p)
		}
		data, err := b.bus.Object(t.Context(), accepted.Tenant, threadID, *p.Ref)
		if err != nil || !bytes.Equal(data, want) {
			t.Errorf("part %d refers to %d bytes, %v", i, len(data), err)
		}
	}
}

func TestARetryWithLargeDataIsTheSameRequest(t *testing.T) {
	t.Parallel()
	b := start(t, large)
	body := parts(part("image", "image/png", picture(t, 100<<10)))
	first := b.post("/v1/agents/demo/requests", body, "Idempotency-Key", "k")
	second := b.post("/v1/agents/demo/requests", body, "Idempotency-Key", "k")
	if first.status != http.StatusAccepted || second.body != first.body || second.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("got %d %s and %d %s", first.status, first.body, second.status, second.body)
	}
}

func TestASteerMayBringAPicture(t *testing.T) {
	t.Parallel()
	b := start(t, large)
	to := b.running()
	body := parts(part("image", "image/png", picture(t, 100<<10)))
	for range 2 {
		if a := b.post("/v1/requests/"+to.requestID+"/steer", body, "Idempotency-Key", "k"); a.status != http.StatusAccepted {
			t.Fatalf("got %d %s", a.status, a.body)
		}
	}
	steers := b.steers(to.requestID)
	if len(steers) != 1 || steers[0].Messages[0].Content[0].Ref == nil {
		t.Errorf("got %.300v, want one steer with a reference", steers)
	}
}

// reference is the name of the object that holds data.
func reference(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// kept makes a thread that keeps data, and returns the path of it there.
func (b *bench) kept(mediaType string, data []byte, headers ...string) (path, threadID string) {
	b.t.Helper()
	a := b.post("/v1/agents/demo/requests", parts(part("file", mediaType, data)), headers...)
	if a.status != http.StatusAccepted {
		b.t.Fatalf("got %d %s", a.status, a.body)
	}
	threadID = a.header.Get("X-Thread-Id")
	return "/v1/threads/" + threadID + "/objects/" + reference(data), threadID
}

func TestObjectsComeBackAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	b := start(t, large)
	padding := strings.Repeat(" ", 70<<10)
	tests := []struct {
		what, mediaType, data string
		contentType           string
		shown                 bool
	}{
		{"a picture", "image/png", string(picture(t, 70<<10)), "image/png", true},
		{"a PDF", "application/pdf", "%PDF-1.7\n" + padding, "application/pdf", false},
		{"words", "text/markdown", "# hi" + padding, "text/plain; charset=utf-8", false},
		{"a page with a script", "text/html", "<!DOCTYPE html><script>alert(1)</script>" + padding, "text/plain; charset=utf-8", false},
		{"a drawing with a script", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>` + padding, "text/plain; charset=utf-8", false},
		{"bytes", "application/zip", "PK\x03\x04\x00" + padding, "application/octet-stream", false},
	}
	for _, test := range tests {
		path, _ := b.kept(test.mediaType, []byte(test.data))
		a := b.get(path)
		if a.status != http.StatusOK || a.body != test.data || a.header.Get("Content-Type") != test.contentType {
			t.Errorf("%s: got %d and %d bytes of %s", test.what, a.status, len(a.body), a.header.Get("Content-Type"))
		}
		if shown := a.header.Get("Content-Disposition") != "attachment"; shown != test.shown {
			t.Errorf("%s: got Content-Disposition %q", test.what, a.header.Get("Content-Disposition"))
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasSuffix(a.header.Get("Content-Security-Policy"), "; sandbox") {
			t.Errorf("%s: got headers %v", test.what, a.header)
		}
		if !strings.Contains(a.header.Get("Cache-Control"), "private") {
			t.Errorf("%s: got Cache-Control %q", test.what, a.header.Get("Cache-Control"))
		}
		again := b.get(path, "If-None-Match", a.header.Get("ETag"))
		if again.status != http.StatusNotModified || again.body != "" {
			t.Errorf("%s: got %d and %d bytes for what the client has", test.what, again.status, len(again.body))
		}
		if some := b.get(path, "Range", "bytes=0-9"); some.status != http.StatusPartialContent || some.body != test.data[:10] {
			t.Errorf("%s: got %d %q for its first ten bytes", test.what, some.status, some.body)
		}
	}
}

func TestOnlyTheOwnerOfItsThreadReadsAnObject(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys, large)
	alice, _ := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	carol, _ := b.key("globex", "alice")
	data := picture(t, 70<<10)
	path, threadID := b.kept("image/png", data, "Authorization", "Bearer "+alice)
	_, other := b.kept("text/plain", []byte("hi"), "Authorization", "Bearer "+bob)
	_, third := b.kept("text/plain", []byte("hi"), "Authorization", "Bearer "+carol)
	tests := []struct {
		who, key, path string
		status         int
		code           apierr.Code
	}{
		{"its owner", alice, path, http.StatusOK, ""},
		{"nobody", "", path, http.StatusUnauthorized, apierr.AuthFailed},
		{"another owner", bob, path, http.StatusForbidden, apierr.ThreadAccessDenied},
		{"another tenant", carol, path, http.StatusNotFound, apierr.ThreadNotFound},
		{"another owner, by a thread of his", bob, strings.Replace(path, threadID, other, 1), http.StatusNotFound, apierr.ObjectNotFound},
		{"another tenant, by a thread of hers", carol, strings.Replace(path, threadID, third, 1), http.StatusNotFound, apierr.ObjectNotFound},
		{"its owner, of what is not there", alice, "/v1/threads/" + threadID + "/objects/" + reference([]byte("x")), http.StatusNotFound, apierr.ObjectNotFound},
	}
	for _, test := range tests {
		a := b.get(test.path, "Authorization", "Bearer "+test.key)
		if a.status != test.status || test.code != "" && a.failure(t).Code != test.code {
			t.Errorf("%s: got %d %.200s, want %d %s", test.who, a.status, a.body, test.status, test.code)
		}
	}
}

func TestAttackMedia(t *testing.T) {
	t.Parallel()
	b := start(t, large)
	to := b.running()
	image := func(rest string) string { return parts(`{"type":"image",` + rest + `}`) }
	many := strings.TrimSuffix(strings.Repeat(part("file", "text/plain", []byte("hi"))+",", 51), ",")
	tests := []struct {
		what, body string
		status     int
		says       string
	}{
		{"a page as a PNG", parts(part("image", "image/png", []byte("<script>alert(1)</script>"))), 400, "correct the type"},
		{"a drawing with a script", parts(part("image", "image/svg+xml", []byte("<svg/>"))), 400, "send PNG, JPEG, GIF or WebP"},
		{"invalid base64", image(`"mediaType":"image/png","data":"@@@@"`), 400, "data"},
		{"base64 that is cut", image(`"mediaType":"image/png","data":"iVBORw0KGg"`), 400, "data"},
		{"data that is a number", image(`"mediaType":"image/png","data":7`), 400, "data must not be"},
		{"data that is an array of bytes", image(`"mediaType":"image/png","data":[137,80]`), 400, "data must not be"},
		{"a path as a name", image(`"mediaType":"image/gif","data":"R0lGODlhAQABAA==","name":"../../x.gif"`), 400, "is the path"},
		{"a reference to an object of another user", image(`"ref":{"object":"` + reference([]byte("x")) + `","size":1,"sha256":"x"}`), 400, "send the data itself"},
		{"a url of the gateway's own host", image(`"url":"file:///etc/passwd"`), 400, "http or https"},
		{"a thousand parts", parts(strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a"},`, 1000), ",")), 400, "more than 100 entries"},
		{"fifty-one files", parts(many), 413, "more than 50 images and files"},
		{"a file that is too large", parts(part("file", "text/plain", bytes.Repeat([]byte("x"), 16<<20+1))), 413, "16777216 are the limit"},
		{"a body that is too large", parts(part("file", "text/plain", bytes.Repeat([]byte("x"), 19<<20))), 413, "larger than 25165824 bytes"},
	}
	for _, test := range tests {
		for _, path := range []string{"/v1/agents/demo/requests", "/v1/agents/demo/stream", "/v1/requests/" + to.requestID + "/steer"} {
			a := b.post(path, test.body)
			if a.status != test.status || !strings.Contains(a.failure(t).Message, test.says) {
				t.Errorf("%s, %s: got %d %.300s, want %d that says %q", path, test.what, a.status, a.body, test.status, test.says)
			}
		}
	}
	b.works()
}

func TestTheDefaultLimitOfABodyIsNamed(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway = config.Gateway{} })
	a := b.post("/v1/agents/demo/requests", parts(part("image", "image/png", picture(t, 600<<10))))
	if a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.failure(t).Message, "524288 bytes") {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

func TestTheStreamShowsReferencesInsteadOfData(t *testing.T) {
	t.Parallel()
	b := start(t, large)
	data := picture(t, 300<<10)
	requestID, _ := b.accepted(parts(part("image", "image/png", data)))
	accepted, err := b.bus.Accepted(t.Context(), b.log(requestID))
	if err != nil {
		t.Fatal(err)
	}
	b.emit(b.claim(requestID), event.Input{ThreadID: accepted.ThreadID, AgentID: "demo", Messages: accepted.Request.Messages}, done())
	a := b.get("/v1/requests/" + requestID + "/stream?include=input")
	if !strings.Contains(a.body, `"ref":{"object":"`+reference(data)+`"`) || len(a.body) > 4<<10 {
		t.Errorf("got %d bytes: %.500s", len(a.body), a.body)
	}
}
