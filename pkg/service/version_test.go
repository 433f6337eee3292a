package service

import (
	"runtime/debug"
	"testing"
)

func TestVersionOfBuildInformation(t *testing.T) {
	t.Parallel()
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "false"}}
	modified := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	ours := &debug.Module{Path: module, Version: "v1.2.3"}
	tests := map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"go install of a version":        {debug.BuildInfo{Main: *ours}, "v1.2.3"},
		"a build of a clone":             {debug.BuildInfo{Main: debug.Module{Path: module, Version: devel}, Settings: revision}, "0123456789ab"},
		"a build of a changed clone":     {debug.BuildInfo{Main: debug.Module{Path: module}, Settings: modified}, "0123456789ab+dirty"},
		"a program of another module":    {debug.BuildInfo{Main: debug.Module{Path: "example.com/x", Version: "v9.0.0"}, Deps: []*debug.Module{ours}}, "v1.2.3"},
		"a replaced module":              {debug.BuildInfo{Main: debug.Module{Path: "example.com/x"}, Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "../x"}}}, Settings: revision}, unversioned},
		"go run without version control": {debug.BuildInfo{Main: debug.Module{Path: module, Version: devel}}, unversioned},
	}
	for name, test := range tests {
		if got := versionOf(&test.info); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
