package service

import (
	"runtime/debug"
)

// version is set by the linker: -ldflags "-X github.com/agentbus/agentbus/pkg/service.version=v1.2.3".
var version string //nolint:gochecknoglobals // the linker sets nothing but variables

// module is the path of the module that contains the services.
const module = "github.com/agentbus/agentbus"

// Version returns the version of the services in this program: the linker's, or else that of the build information, as
// `go install` and `go build` write it.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unversioned
	}
	return versionOf(info)
}

const (
	unversioned = "devel"   // go run of a clone
	devel       = "(devel)" // the version of a module that is not a dependency and has no version control
)

// versionOf returns the version of the module, else the revision of the main module, else "devel".
func versionOf(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == module && m.Replace == nil && m.Version != "" && m.Version != devel {
			return m.Version
		}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if info.Main.Path != module || revision == "" {
		return unversioned
	}
	if settings["vcs.modified"] == "true" {
		return revision[:min(12, len(revision))] + "+dirty"
	}
	return revision[:min(12, len(revision))]
}
