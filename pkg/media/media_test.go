package media_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
)

// The smallest files of their kinds, or their beginnings.
const (
	png  = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	jpeg = "\xff\xd8\xff\xe0\x00\x10JFIF"
	gif  = "GIF89a\x01\x00\x01\x00"
	webp = "RIFF\x24\x00\x00\x00WEBPVP8 "
	pdf  = "%PDF-1.7\n"
	svg  = `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
)

func TestTypeGoesByTheBytes(t *testing.T) {
	t.Parallel()
	tests := []struct{ what, data, want string }{
		{"a PNG", png, "image/png"},
		{"a JPEG", jpeg, "image/jpeg"},
		{"a GIF", gif, "image/gif"},
		{"a WebP", webp, "image/webp"},
		{"a PDF", pdf, media.PDF},
		{"words", "hello, wörld", media.Text},
		{"a drawing with a script in it", svg, media.Text},
		{"a page", "<!DOCTYPE html><script>alert(1)</script>", media.Text},
		{"a bitmap, which models do not see", "BM\x00\x01", media.Binary},
		{"an archive", "PK\x03\x04\x14\x00", media.Binary},
		{"bytes that are not UTF-8", "\xff\xfe\x00h", media.Binary},
		{"nothing", "", media.Text},
	}
	for _, test := range tests {
		if got := media.Type([]byte(test.data)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.what, got, test.want)
		}
	}
}

func TestCheckTakes(t *testing.T) {
	t.Parallel()
	inPNG := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(png))
	tests := []struct {
		what      string
		part      event.InputPart
		mediaType string
		data      string
	}{
		{"an image in data", event.InputPart{Type: media.Image, MediaType: "image/png", Data: []byte(png)}, "image/png", png},
		{"a media type in capitals", event.InputPart{Type: media.Image, MediaType: "Image/PNG", Data: []byte(png)}, "image/png", png},
		{"the name that many give a JPEG", event.InputPart{Type: media.Image, MediaType: "image/jpg", Data: []byte(jpeg)}, "image/jpeg", jpeg},
		{"a data URL", event.InputPart{Type: media.Image, URL: inPNG}, "image/png", png},
		{"a data URL in capitals", event.InputPart{Type: media.Image, URL: "DATA" + inPNG[4:]}, "image/png", png},
		{"a data URL of text", event.InputPart{Type: media.File, URL: "data:text/plain;charset=utf-8;base64,aGk="}, "text/plain", "hi"},
		{"an image by URL", event.InputPart{Type: media.Image, URL: "https://example.com/a.png"}, "", ""},
		{"a PDF", event.InputPart{Type: media.File, MediaType: "application/pdf", Data: []byte(pdf), Name: "a b.pdf"}, media.PDF, pdf},
		{"Markdown", event.InputPart{Type: media.File, MediaType: "text/markdown", Data: []byte("# hi")}, "text/markdown", "# hi"},
		{"a drawing as a file", event.InputPart{Type: media.File, MediaType: "image/svg+xml", Data: []byte(svg)}, "image/svg+xml", svg},
		{"a file of any type", event.InputPart{Type: media.File, MediaType: "application/zip", Data: []byte("PK\x03\x04")}, "application/zip", "PK\x03\x04"},
	}
	for _, test := range tests {
		got, err := media.Check("here", test.part)
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		if got.MediaType != test.mediaType || string(got.Data) != test.data || len(got.Data) > 0 && got.URL != "" {
			t.Errorf("%s: got %.200v", test.what, got)
		}
	}
}

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	image := func(mediaType, data string) event.InputPart {
		return event.InputPart{Type: media.Image, MediaType: mediaType, Data: []byte(data)}
	}
	named := func(name string) event.InputPart {
		return event.InputPart{Type: media.File, MediaType: "text/plain", Data: []byte("hi"), Name: name}
	}
	tests := []struct {
		what string
		part event.InputPart
		says string
	}{
		{"nothing", event.InputPart{Type: media.Image}, "here needs either a url or data"},
		{"both", event.InputPart{Type: media.Image, URL: "https://x.org", Data: []byte(png)}, "here needs either a url or data"},
		{"a reference from outside", event.InputPart{Type: media.Image, Ref: &event.ObjectRef{Object: "x"}}, "here.ref is reserved"},
		{"data of no type", image("", png), "here.mediaType is missing"},
		{"an invalid type", image("png", png), `here.mediaType is "png"`},
		{"a type with a line break", image("image/png\r\nX: y", png), "here.mediaType"},
		{"a drawing with a script in it", image("image/svg+xml", svg), "send PNG, JPEG, GIF or WebP"},
		{"a page that says it is a PNG", image("image/png", "<html><script>alert(1)</script>"), "data is text/plain; correct the type"},
		{"a JPEG that says it is a PNG", image("image/png", jpeg), "data is image/jpeg"},
		{"a page as an image", image("text/html", "<html>"), "send PNG, JPEG"},
		{"a text that says it is a PDF", event.InputPart{Type: media.File, MediaType: "application/pdf", Data: []byte("hi")}, "data is text/plain"},
		{"bytes that say they are text", event.InputPart{Type: media.File, MediaType: "text/csv", Data: []byte("a\x00b")}, "not text in UTF-8"},
		{"a path", named("../../etc/passwd"), "is the path"},
		{"a path of Windows", named(`C:\boot.ini`), "is the path"},
		{"the folder above", named(".."), "is the path"},
		{"a name with a line break", named("a\nb.txt"), "do not print"},
		{"a name that reads from right to left", named("a\u202etxt.exe"), "do not print"},
		{"a long name", named(strings.Repeat("a", 256)), "has 256 bytes"},
		{"a local file", event.InputPart{Type: media.File, URL: "file:///etc/passwd"}, "here.url must be an http or https URL"},
		{"a script", event.InputPart{Type: media.Image, URL: "javascript:alert(1)"}, "here.url must be"},
		{"a url without a host", event.InputPart{Type: media.Image, URL: "https:"}, "here.url must be"},
		{"a long url", event.InputPart{Type: media.Image, URL: "https://x.org/" + strings.Repeat("a", 5000)}, "at most 4096 bytes"},
		{"a data URL that is not in base64", event.InputPart{Type: media.Image, URL: "data:image/png,hi"}, "not in base64"},
		{"a data URL of wrong base64", event.InputPart{Type: media.Image, URL: "data:image/png;base64,!!"}, "without valid base64"},
		{"a data URL of nothing", event.InputPart{Type: media.Image, URL: "data:image/png;base64,"}, "without valid base64"},
		{"a data URL that ends early", event.InputPart{Type: media.Image, URL: "data:"}, "not in base64"},
	}
	for _, test := range tests {
		_, err := media.Check("here", test.part)
		if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(apierr.From(err).Message, test.says) {
			t.Errorf("%s: got %v, want it to say %q", test.what, err, test.says)
		}
	}
}

func TestCheckNamesTheLimit(t *testing.T) {
	t.Parallel()
	large := append([]byte(png), bytes.Repeat([]byte{0}, media.MaxBytes)...)
	_, err := media.Check("here", event.InputPart{Type: media.Image, MediaType: "image/png", Data: large})
	if apierr.CodeOf(err) != apierr.MessageTooLarge || !strings.Contains(apierr.From(err).Message, "16777216 are the limit") {
		t.Errorf("got %v, want %s with the limit", err, apierr.MessageTooLarge)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		part event.InputPart
		want string
	}{
		{event.InputPart{Type: media.Image}, `image`},
		{event.InputPart{Type: media.Image, URL: "https://x.org/a.png"}, `image (at https://x.org/a.png)`},
		{event.InputPart{Type: media.File, Name: `a"b.zip`, MediaType: "application/zip", Data: []byte("PK")}, `file "a\"b.zip" (application/zip, 2 bytes)`},
		{event.InputPart{Type: media.File, MediaType: "text/csv", Ref: &event.ObjectRef{Size: 7}}, `file (text/csv, 7 bytes)`},
	}
	for _, test := range tests {
		if got := media.Describe(test.part); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

// FuzzCheck says: whatever a part says of itself, what is taken keeps the rules, and is taken again as it is.
func FuzzCheck(f *testing.F) {
	f.Add(media.Image, "", "image/png", "a.png", []byte(png))
	f.Add(media.Image, "data:image/png;base64,iVBORw0KGgo=", "", "", []byte(nil))
	f.Add(media.File, "https://x.org/a.pdf", "application/pdf", "", []byte(nil))
	f.Add(media.File, "", "text/plain; charset=utf-8", "../a", []byte("hi"))
	f.Fuzz(func(t *testing.T, kind, url, mediaType, name string, data []byte) {
		got, err := media.Check("here", event.InputPart{Type: kind, URL: url, MediaType: mediaType, Name: name, Data: data})
		if err != nil {
			return
		}
		if (got.URL == "") == (len(got.Data) == 0) || strings.HasPrefix(got.URL, "data:") || strings.ContainsAny(got.Name, `/\`) {
			t.Errorf("took %+v", got)
		}
		if kind == media.Image && len(got.Data) > 0 && (got.MediaType != media.Type(got.Data) || !media.IsImage(got.MediaType)) {
			t.Errorf("took an invalid image: %+v", got)
		}
		again, err := media.Check("here", got)
		if err != nil || again.URL != got.URL || again.MediaType != got.MediaType || !bytes.Equal(again.Data, got.Data) {
			t.Errorf("got %+v and then %+v, %v", got, again, err)
		}
	})
}
