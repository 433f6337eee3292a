package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rows is how many things each document asks for, of which docs/protocols.md must have every one.
var rows = map[string]int{"S0": 52, "S1": 19, "S2": 31, "S4": 33}

var (
	row  = regexp.MustCompile(`(?m)^\| (S\d)-(\d+) \| (.+) \| (.+) \|$`)
	shot = regexp.MustCompile("`([a-z0-9/-]+)\\.((?:Test|Fuzz|Example)\\w*)`")
)

func TestEveryRowOfTheProtocolsIsShown(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/protocols.md")
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string][]int{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		numbers[m[1]] = append(numbers[m[1]], n)
		if !shot.MatchString(m[4]) && !strings.HasPrefix(m[4], "Refused: ") {
			t.Errorf("%s-%d names no test: add one such as `pkg/sse.TestAppend`, or write \"Refused: \" and the reason", m[1], n)
		}
	}
	for document, want := range rows {
		if len(numbers[document]) != want {
			t.Errorf("%s has %d rows, want %d", document, len(numbers[document]), want)
		}
	}
	for document, got := range numbers {
		if !increasing(got) || got[0] < 1 || rows[document] > 0 && got[len(got)-1] > rows[document] {
			t.Errorf("the rows of %s are %v: each must be there once, in order", document, got)
		}
	}
}

func increasing(numbers []int) bool {
	for i, n := range numbers[1:] {
		if n <= numbers[i] {
			return false
		}
	}
	return true
}

func TestEveryTestOfTheProtocolsExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/protocols.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{}
	for _, m := range shot.FindAllStringSubmatch(string(text), -1) {
		folder, name := m[1], m[2]
		if _, ok := known[folder]; !ok {
			known[folder] = testsOf(t, folder)
		}
		if !slices.Contains(known[folder], name) {
			t.Errorf("docs/protocols.md names %s.%s, which does not exist", folder, name)
		}
	}
	if len(known) == 0 {
		t.Error("docs/protocols.md names no tests")
	}
}

// TestEveryScenarioOfTheFeaturesExists looks for each cell of the table of features in the file that heads its column.
func TestEveryScenarioOfTheFeaturesExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/protocols.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Features by protocol")
	var columns []string // the texts of the files
	found := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(line, "|---") {
			continue
		}
		cells = cells[2 : len(cells)-1]
		if columns == nil {
			for _, head := range cells {
				_, file, _ := strings.Cut(head, "`")
				scenarios, err := os.ReadFile("../../services/e2e/clients/" + strings.Split(file, "`")[0])
				if err != nil {
					t.Fatal(err)
				}
				columns = append(columns, string(scenarios))
			}
			continue
		}
		for i, cell := range cells {
			name, ok := strings.CutPrefix(strings.TrimSpace(cell), "“")
			if !ok {
				continue
			}
			found++
			if name = strings.TrimSuffix(name, "”"); !strings.Contains(columns[i], name) {
				t.Errorf("%s: got no scenario %q", strings.TrimSpace(strings.Split(line, "|")[1]), name)
			}
		}
	}
	if found < 50 {
		t.Errorf("got %d scenarios in the table of features, want more", found)
	}
}

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// testsOf lists the tests, fuzz targets and examples of a folder.
func testsOf(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}
