package main

import (
	"encoding/json"
	"runtime/debug"
	"testing"
)

func TestDocumentListsTheModules(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Path: "example.org/main", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v1.2.3"},
			{Path: "example.org/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1"}},
		},
	}
	got, err := json.Marshal(document("gateway", "v9", info))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,"metadata":{"component":` +
		`{"type":"application","bom-ref":"pkg:golang/example.org/main@v9","name":"gateway","version":"v9","purl":"pkg:golang/example.org/main@v9"}},` +
		`"components":[` +
		`{"type":"library","bom-ref":"pkg:golang/stdlib@1.26.8","name":"stdlib","version":"1.26.8","purl":"pkg:golang/stdlib@1.26.8"},` +
		`{"type":"library","bom-ref":"pkg:golang/example.org/a@v1.2.3","name":"example.org/a","version":"v1.2.3","purl":"pkg:golang/example.org/a@v1.2.3"},` +
		`{"type":"library","bom-ref":"pkg:golang/example.org/fork@v1.0.1","name":"example.org/fork","version":"v1.0.1","purl":"pkg:golang/example.org/fork@v1.0.1"}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
