// Command release builds the programs for each platform into archives with checksums. The same commit, version and Go release
// give the same bytes.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agentbus/agentbus/pkg/service"
)

// options are the settings of a release.
type options struct {
	dist, version, ldflags string
	platforms, services    []string
}

func main() {
	ctx, stop := service.Signals(context.Background())
	defer stop()
	var o options
	var platforms, services string
	flag.StringVar(&o.dist, "dist", "dist", "folder of the archives")
	flag.StringVar(&o.version, "version", "devel", "version in the names of the archives")
	flag.StringVar(&o.ldflags, "ldflags", "", "flags of the linker")
	flag.StringVar(&platforms, "platforms", "linux/amd64", "platforms as os/arch, separated by spaces")
	flag.StringVar(&services, "services", "", "services to include, separated by spaces")
	flag.Parse()
	o.platforms, o.services = strings.Fields(platforms), strings.Fields(services)
	if err := release(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing is deferred but stop
	}
}

// release writes one archive for each platform, and the file checksums.txt.
func release(ctx context.Context, o options) error {
	if err := os.MkdirAll(o.dist, 0o755); err != nil { //nolint:gosec // a release is public
		return fmt.Errorf("create the folder of the archives: %w", err)
	}
	var sums strings.Builder
	for _, platform := range o.platforms {
		name, err := o.platform(ctx, platform)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		text, err := os.ReadFile(filepath.Join(o.dist, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), name)
		if _, err := fmt.Fprintln(os.Stdout, filepath.Join(o.dist, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(o.dist, "checksums.txt"), []byte(sums.String()), 0o644) //nolint:gosec // public
}

// platform builds the programs of a platform and returns the name of their archive.
func (o options) platform(ctx context.Context, platform string) (string, error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return "", fmt.Errorf("write it as os/arch, such as linux/amd64")
	}
	suffix := ""
	if system == "windows" {
		suffix = ".exe"
	}
	dir, err := os.MkdirTemp("", "agentbus-release-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder: the system removes what remains
	files := []file{{"LICENSE", "LICENSE", 0o644}, {"README.md", "README.md", 0o644}, {"config.example.yaml", "deploy/config.example.yaml", 0o644}}
	packages := map[string]string{"agentbus": "./cmd/agentbus"}
	for _, s := range o.services {
		packages[s] = "./services/" + s + "/cmd"
	}
	for program, pkg := range packages {
		path := filepath.Join(dir, program+suffix)
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", o.ldflags, "-o", path, pkg) //nolint:gosec // our own packages
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
		if text, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", program, err, text)
		}
		files = append(files, file{program + suffix, path, 0o755})
	}
	folder := fmt.Sprintf("agentbus_%s_%s_%s", o.version, system, arch)
	name := folder + ".tar.gz"
	if system == "windows" {
		name = folder + ".zip"
	}
	return name, writeArchive(filepath.Join(o.dist, name), folder, files)
}
