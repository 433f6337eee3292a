package workspace

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Limits of a search.
const (
	maxDepth   = 5
	maxVisited = 20_000
	maxFound   = 20
)

// Search returns at most 20 items whose path contains words, the best match first: a name that equals words, then one
// that starts with, ends with or contains them. Without words it lists the root of the workspace. Kind "" means any.
// Hidden items and node_modules are omitted.
func (w *Workspace) Search(ctx context.Context, words string, kind Kind) ([]Entry, error) {
	if w.root == nil {
		return nil, nil
	}
	s := search{words: strings.ToLower(words), kind: kind}
	err := fs.WalkDir(w.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.visit(name, d, err)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.found, s.compare)
	return s.found[:min(len(s.found), maxFound)], nil
}

type search struct {
	words   string
	kind    Kind
	visited int
	found   []Entry
}

// visit processes one item, and returns fs.SkipDir for folders that are not searched.
func (s *search) visit(name string, d fs.DirEntry, err error) error {
	if s.visited++; s.visited > maxVisited {
		return fs.SkipAll
	}
	if err != nil && d == nil {
		return err
	}
	if name == "." || err != nil {
		return nil //nolint:nilerr // a folder that may not be read has nothing in it
	}
	if hidden(d.Name()) {
		return skip(d)
	}
	if d.IsDir() || d.Type().IsRegular() {
		s.add(name, d)
	}
	if s.words == "" || strings.Count(name, "/") >= maxDepth {
		return skip(d)
	}
	return nil
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "node_modules" }

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func (s *search) add(name string, d fs.DirEntry) {
	e := Entry{Kind: File, Name: path.Base(name), Path: name}
	if d.IsDir() {
		e.Kind = Directory
	}
	if (s.kind == "" || s.kind == e.Kind) && strings.Contains(strings.ToLower(name), s.words) {
		s.found = append(s.found, e)
	}
}

func (s *search) compare(a, b Entry) int {
	return cmp.Or(
		cmp.Compare(s.rank(a), s.rank(b)),
		cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Path, b.Path),
	)
}

// rank is smaller for a better match.
func (s *search) rank(e Entry) int {
	name := strings.ToLower(e.Name)
	switch {
	case name == s.words:
		return 0
	case strings.HasPrefix(name, s.words):
		return 1
	case strings.HasSuffix(name, s.words):
		return 2
	case strings.Contains(name, s.words):
		return 3
	case strings.HasSuffix(strings.ToLower(e.Path), s.words):
		return 4
	default:
		return 5
	}
}
