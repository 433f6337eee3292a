package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The user interface that Tarko's makers have published.
const (
	uiPackage = "@tarko/agent-ui-builder@0.3.0"
	uiSum     = "483b99769a7785a9916cac87b904f9b55da4053a321be342f2e672f662749bac" // SHA-256 of its page
	uiFolder  = "package/static/"
)

// fetchUI fetches the user interface into the user's cache, once, and returns the path of its page.
func fetchUI(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	home := filepath.Join(cache, "agentbus", "ui-"+uiSum[:12])
	page := filepath.Join(home, "index.html")
	if _, err := os.Stat(page); err == nil {
		return page, nil
	}
	if err := os.MkdirAll(filepath.Dir(home), 0o750); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(home), "fetching-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(fresh) }() // gone already when all went well
	if err := unpack(ctx, fresh); err != nil {
		return "", fmt.Errorf("fetch %s: %w", uiPackage, err)
	}
	if err := os.Rename(fresh, home); err != nil {
		if _, there := os.Stat(page); there != nil { // another process was faster
			return "", err
		}
	}
	return page, nil
}

// unpack puts the package's static files into a folder.
func unpack(ctx context.Context, folder string) error {
	npm := exec.CommandContext(ctx, "npm", "pack", "--silent", uiPackage)
	npm.Dir = folder
	said, err := npm.Output()
	if err != nil {
		return fmt.Errorf("npm pack: %w", err)
	}
	archive := filepath.Join(folder, filepath.Base(strings.TrimSpace(string(said))))
	packed, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	files := tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return os.Remove(archive)
		}
		if err != nil {
			return err
		}
		name, ours := strings.CutPrefix(header.Name, uiFolder)
		if !ours || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := store(folder, name, files); err != nil {
			return err
		}
	}
}

func store(folder, name string, content io.Reader) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%s leads out of the package", name)
	}
	text, err := io.ReadAll(io.LimitReader(content, 16<<20))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(text); name == "index.html" && hex.EncodeToString(sum[:]) != uiSum {
		return fmt.Errorf("%s has the hash %x, want %s", name, sum, uiSum)
	}
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
