package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// overlay is the -overlay of the go command: the repository with the files of a page, which are written to a folder.
type overlay struct {
	t       *testing.T
	page    page
	dir     string
	Replace map[string]string
}

// add adds a file of the page, given by its path in the repository.
func (o overlay) add(path string) { o.put(path, o.page.block("`"+path+"`")) }

// insert adds a line after the one that ends with a text, and an import, to a file of the repository.
func (o overlay) insert(path, after, line, imported string) {
	o.t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		o.t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), after+"\n")
	before, imports, found2 := strings.Cut(before, "import (\n")
	if !found || !found2 {
		o.t.Fatalf("%s has no line %q, which docs/%s names", path, after, o.page.name)
	}
	o.put(path, before+"import (\n\t\""+imported+"\"\n"+imports+after+"\n"+line+rest)
}

func (o overlay) put(path, text string) {
	o.t.Helper()
	name := filepath.Join(o.dir, strings.ReplaceAll(path, "/", "_"))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	target, err := filepath.Abs(filepath.Join(root, path))
	if err != nil {
		o.t.Fatal(err)
	}
	o.Replace[target] = name
}

// run runs a go command in the repository with the overlay.
func (o overlay) run(command string) {
	o.t.Helper()
	list, err := json.Marshal(map[string]any{"Replace": o.Replace})
	if err != nil {
		o.t.Fatal(err)
	}
	file := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		o.t.Fatal(err)
	}
	for _, verb := range []string{"go test", "go build"} {
		command = strings.Replace(command, verb, verb+" -overlay="+file, 1)
	}
	shell(o.t, root, "", "", command)
}

func TestExtending(t *testing.T) {
	t.Parallel()
	p := read(t, "extending.md")
	o := overlay{t, p, t.TempDir(), map[string]string{}}
	o.add("pkg/tool/reverse/reverse.go")
	o.add("pkg/tool/reverse/reverse_test.go")
	o.add("pkg/backend/parrot/parrot.go")
	o.insert("pkg/tool/builtin/builtin.go", "\t\techo.New(),", p.block("Add the tool to `list`"), "github.com/agentbus/agentbus/pkg/tool/reverse")
	o.insert("pkg/backend/catalog/catalog.go", "newAnthropic,", p.block("Add it to `list`"), "github.com/agentbus/agentbus/pkg/backend/parrot")
	suite := filepath.Join(o.dir, "reverse.test")
	o.run("go test -vet=off -c -o " + suite + " ./pkg/tool/reverse && " + suite) // vet and go test need its folder, which is in the overlay alone
	o.run("go test -vet=off ./pkg/tool/builtin ./pkg/backend/catalog")
	o.run("go build -o " + filepath.Join(o.dir, "agentbus") + " ./cmd/agentbus")

	config := filepath.Join(o.dir, "config.yaml")
	agents := p.blocks("Add it to `list`")[1] +
		"  tester:\n    backend: scripted\n    tools: [reverse]\n"
	if err := os.WriteFile(config, []byte(agents), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serve(t, config, o.dir)
	const request = `curl -fsS $AGENTBUS_URL/v1/agents/%s/stream -H 'Content-Type: application/json' -d '{"messages":[{"role":"user","content":"%s"}]}'`
	wantTexts(t, shell(t, o.dir, url, "", fmt.Sprintf(request, "polly", "hello world")), "hello ", "event: done")
	wantTexts(t, shell(t, o.dir, url, "", fmt.Sprintf(request, "tester", `/tool reverse {\"text\":\"abc\"}`)), "cba", "event: done")
}
