// Package media checks the images and files of users and tools: which parts are accepted, and the type of their bytes.
// All code that accepts a part from outside checks it here: a codec for its client, an executor for its tool.
package media

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// The limits of a part.
const (
	MaxBytes = 16 << 20 // of its data, decoded
	MaxName  = 255      // bytes
	maxURL   = 4 << 10
)

// The types of parts other than text.
const (
	Image = "image"
	File  = "file"
)

// The media types that have a meaning here.
const (
	PDF    = "application/pdf"
	Text   = "text/plain"
	Binary = "application/octet-stream"
)

// IsImage reports whether models accept images of this type. SVG is excluded: it is a document that may contain
// scripts.
func IsImage(mediaType string) bool {
	return slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, mediaType)
}

// Type returns the type of data by its content alone: an image type of [IsImage], PDF, Text or Binary.
func Type(data []byte) string {
	found, _, _ := strings.Cut(http.DetectContentType(data), ";")
	switch {
	case IsImage(found), found == PDF:
		return found
	case utf8.Valid(data) && !slices.Contains(data, 0):
		return Text
	default:
		return Binary
	}
}

// Check returns an image or file as it is to be kept: a data URL becomes data, the media type is in its common form. A
// part that is not taken is a fault that begins with where: apierr.MessageTooLarge when it is too large, and else
// apierr.InvalidMessageFormat.
func Check(where string, p event.InputPart) (event.InputPart, error) {
	if p.Ref != nil {
		return p, invalid("%s.ref is reserved for data that the server stores; send the data itself, or a url", where)
	}
	if (p.URL == "") == (len(p.Data) == 0) {
		return p, invalid("%s needs either a url or data, base64-encoded", where)
	}
	if why := badName(p.Name); why != "" {
		return p, invalid("%s.name %s; send a file's name without its folder", where, why)
	}
	p, err := inline(where, p)
	if err != nil {
		return p, err
	}
	if p.MediaType, err = mediaType(where, p); err != nil {
		return p, err
	}
	if p.URL != "" {
		return p, checkURL(where, p.URL)
	}
	return p, checkData(where, p)
}

// mediaType is the part's in its common form. One that comes by URL need not have any.
func mediaType(where string, p event.InputPart) (string, error) {
	if p.MediaType == "" {
		if len(p.Data) > 0 {
			return "", invalid("%s.mediaType is missing; it says what data is, for example \"image/png\"", where)
		}
		return "", nil
	}
	found, _, err := mime.ParseMediaType(p.MediaType)
	if err != nil || strings.Count(found, "/") != 1 || len(found) > MaxName {
		return "", invalid("%s.mediaType is %.80q; send something like \"image/png\"", where, p.MediaType)
	}
	if found == "image/jpg" {
		found = "image/jpeg"
	}
	if p.Type == Image && !IsImage(found) {
		return "", invalid("%s is an image of type %.80q; send PNG, JPEG, GIF or WebP, or send it as a file", where, found)
	}
	return found, nil
}

// checkData compares what the bytes are with what they are said to be.
func checkData(where string, p event.InputPart) error {
	if len(p.Data) > MaxBytes {
		return apierr.New(apierr.MessageTooLarge,
			"%s.data has %d bytes, and %d are the limit; send large files by url", where, len(p.Data), MaxBytes)
	}
	is := Type(p.Data)
	if (IsImage(p.MediaType) || p.MediaType == PDF) && is != p.MediaType {
		return invalid("%s.mediaType is %q, but data is %s; correct the type", where, p.MediaType, is)
	}
	if strings.HasPrefix(p.MediaType, "text/") && is == Binary {
		return invalid("%s.mediaType is %q, but data is not text in UTF-8; correct the type, or send it in UTF-8", where, p.MediaType)
	}
	return nil
}

func checkURL(where, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(text) > maxURL {
		return invalid("%s.url must be an http or https URL of at most %d bytes, or a data URL in base64", where, maxURL)
	}
	return nil
}

func badName(name string) string {
	switch {
	case len(name) > MaxName:
		return fmt.Sprintf("has %d bytes, and %d are the limit", len(name), MaxName)
	case name == "." || name == ".." || strings.ContainsAny(name, `/\`):
		return fmt.Sprintf("is the path %.80q", name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }):
		return fmt.Sprintf("is %.80q, with characters that do not print", name)
	default:
		return ""
	}
}

// Describe names a part for people and models, in one line without its content.
func Describe(p event.InputPart) string {
	var about []string
	if p.MediaType != "" {
		about = append(about, p.MediaType)
	}
	switch {
	case p.Ref != nil:
		about = append(about, fmt.Sprintf("%d bytes", p.Ref.Size))
	case len(p.Data) > 0:
		about = append(about, fmt.Sprintf("%d bytes", len(p.Data)))
	case p.URL != "":
		about = append(about, "at "+p.URL)
	}
	text := p.Type
	if p.Name != "" {
		text += fmt.Sprintf(" %q", p.Name)
	}
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}

// Unseen describes a part that the model cannot read.
func Unseen(p event.InputPart) string { return "[" + Describe(p) + ": this model cannot read it]" }

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}
