package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong in a file, and what to do about it.
type Mistake struct {
	File   string // "" when the text came from elsewhere
	Line   int    // from 1
	Column int    // from 1, in characters
	Path   string // for example agents.demo.backend; "" = the whole file
	What   string
}

// Error gives "file:line:column: path: what".
func (m Mistake) Error() string {
	var b strings.Builder
	if m.File != "" {
		b.WriteString(m.File + ":")
	}
	fmt.Fprintf(&b, "%d:%d: ", m.Line, m.Column)
	if m.Path != "" {
		b.WriteString(m.Path + ": ")
	}
	b.WriteString(m.What)
	return b.String()
}

// Mistakes is everything that is wrong in a file, in the order of the file. It is never empty.
type Mistakes []Mistake

// Error gives one mistake a line.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.Error()
	}
	return strings.Join(lines, "\n")
}

func (m Mistakes) sorted() Mistakes {
	slices.SortStableFunc(m, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return m
}

func (m Mistakes) in(file string) Mistakes {
	m = slices.Clone(m)
	for i := range m {
		m[i].File = file
	}
	return m
}

// cure completes "unknown …" with the name that was probably meant, or with all names there are.
func cure(name string, names []string) string {
	if best := closest(name, names); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	names = slices.Sorted(slices.Values(names))
	return "use one of " + strings.Join(names, ", ")
}

// closest returns the one of names that is most like name, or "" when none is like it.
func closest(name string, names []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, candidate := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < least && d < len(candidate) {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the insertions, deletions and replacements that turn a into b.
func distance(a, b string) int {
	const tooLong = 64 // names are short; a longer one is not a misspelling
	if len(a) > tooLong || len(b) > tooLong {
		return tooLong
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
