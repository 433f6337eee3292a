// Command sbom writes the software bill of materials of a program built with Go, from the build information in the program:
// CycloneDX 1.6 in JSON. The same program gives the same bytes.
package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func write(program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the build information: %w", err)
	}
	text, err := json.Marshal(document(filepath.Base(program), version, info), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encode the bill of materials: %w", err)
	}
	_, err = fmt.Fprintln(os.Stdout, string(text))
	return err
}

// bom is a CycloneDX document.
type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

// document lists the modules in the program, with the standard library as the module that tools for vulnerabilities look for.
func document(name, version string, info *debug.BuildInfo) bom {
	doc := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1}
	doc.Metadata.Component = module("application", info.Main.Path, version)
	doc.Metadata.Component.Name = name
	doc.Components = []component{module("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		doc.Components = append(doc.Components, module("library", m.Path, m.Version))
	}
	return doc
}

func module(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
