// Package starter is `agentbus init`: the files of a small project that starts as it is.
package starter

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Config is the name of the configuration file, which `agentbus dev` reads if no other one is given.
const Config = "agentbus.yaml"

//go:embed files
var files embed.FS

// Names lists the files.
func Names() []string { return []string{Config, "agent.py"} }

// Write writes the files into the folder dir, which it creates if necessary. Python is the name of the program that runs
// agent.py. It never overwrites a file: if one of them exists, it writes none.
func Write(dir, python string) error {
	for _, name := range Names() {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists and is not overwritten; choose another folder: agentbus init DIR", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for %s: %w", path, err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a project, not a secret
		return fmt.Errorf("create the folder: %w", err)
	}
	for _, name := range Names() {
		text, err := files.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		if err := create(filepath.Join(dir, name), strings.ReplaceAll(string(text), "{{python}}", python)); err != nil {
			return err
		}
	}
	return nil
}

func create(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a project, not a secret
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
