package docs

import (
	"path/filepath"
	"testing"
)

func TestApprovals(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	dir := t.TempDir()
	p := read(t, "approvals.md")
	p.write(dir, "approve.yaml")
	p.write(dir, "approve.py")
	url := serve(t, filepath.Join(dir, "approve.yaml"), binaries)
	tests := []struct {
		name, input string
		want        []string
	}{
		{"allowed", `/tool calculator {"expression":"6*7"}\n/say finished` + "\ny\n",
			[]string{"Run calculator with", "[calculator: success, 6*7 = 42]", "finished", "done"}},
		{"denied", `/tool calculator {"expression":"6*7"}\n/say finished` + "\nn\n",
			[]string{"[calculator: denied, ", "finished", "done"}},
		{"client tool", "/client-tool get_location {}\n", []string{"[get_location: success, 15 bytes]", "done"}},
		{"input", "/ask Which city?\nOslo\n", []string{"Which city?", "[ask_user: success, the user answered]", "done"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantTexts(t, shell(t, dir, url, tt.input, "python3 approve.py"), tt.want...)
		})
	}
}
