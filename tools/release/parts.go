package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeParts writes what the program consists of, as a CycloneDX document.
func (r *release) writeParts() error {
	modules, err := r.linkedModules()
	if err != nil {
		return err
	}
	document := cyclonedx.NewBOM()
	document.Metadata = &cyclonedx.Metadata{Timestamp: r.date.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, Name: "probity", Version: r.version}}
	parts := []cyclonedx.Component{{Type: cyclonedx.ComponentTypeLibrary, Name: "std",
		Version: strings.TrimPrefix(runtime.Version(), "go"), PackageURL: "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")}}
	for _, m := range modules {
		name, version, _ := strings.Cut(m, " ")
		parts = append(parts, cyclonedx.Component{BOMRef: name + "@" + version, Type: cyclonedx.ComponentTypeLibrary,
			Name: name, Version: version, PackageURL: "pkg:golang/" + name + "@" + version})
	}
	document.Components = &parts
	f, err := os.Create(filepath.Join(r.out, "probity_"+r.version+".cdx.json"))
	if err != nil {
		return err
	}
	if err := cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(document); err != nil {
		return err
	}
	return f.Close()
}
