package main

import (
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// units is where packages have their units. Those of the project name the program where an operator puts it by hand.
const (
	units        = "/usr/lib/systemd/system"
	programPath  = "/usr/bin/probity"
	byHandPath   = "/usr/local/bin/probity"
	documentsDir = "/usr/share/doc/probity"
	pages        = "/usr/share/man/man1"
)

// placed is where a package of a form (deb or rpm) has a file of an archive, and as what; empty: nowhere.
func placed(form, at string) (to, kind string) {
	name := path.Base(at)
	switch {
	case at == "probity":
		return programPath, ""
	case at == "completions/probity.bash":
		return "/usr/share/bash-completion/completions/probity", ""
	case at == "completions/probity.zsh" && form == "rpm":
		return "/usr/share/zsh/site-functions/_probity", ""
	case at == "completions/probity.zsh":
		return "/usr/share/zsh/vendor-completions/_probity", ""
	case at == "completions/probity.fish":
		return "/usr/share/fish/vendor_completions.d/probity.fish", ""
	case path.Dir(at) == manPages:
		return path.Join(pages, name+".gz"), ""
	case at == "deploy/packages/sysusers.conf":
		return "/usr/lib/sysusers.d/probity.conf", ""
	case at == "deploy/packages/tmpfiles.conf":
		return "/usr/lib/tmpfiles.d/probity.conf", ""
	case strings.HasPrefix(at, "deploy/systemd/") && path.Ext(at) == ".toml":
		return "/etc/probity/" + name, files.TypeConfigNoReplace
	case strings.HasPrefix(at, "deploy/systemd/"):
		return path.Join(units, name), ""
	case strings.HasPrefix(at, "deploy/"):
		return "", ""
	}
	return path.Join(documentsDir, at), ""
}

// writePackage writes the package of one form for a Linux platform.
func (r *release) writePackage(p platform, form string, all []file) error {
	dir := filepath.Join(r.work, "packaged-"+p.processor)
	info := &nfpm.Info{Name: "probity", Arch: p.processor, Platform: p.system, Version: r.version, Section: "mail",
		Priority: "optional", Maintainer: "The Probity authors", Description: "E-mail address verification",
		License: "Apache-2.0", MTime: r.date, DisableGlobbing: true}
	info.RPM.BuildHost = "localhost"
	info.RPM.Summary = info.Description
	info.Depends = []string{"ca-certificates", "systemd"}
	scripts := filepath.Join(r.source, "deploy", "packages")
	info.Scripts = nfpm.Scripts{PostInstall: filepath.Join(scripts, "postinstall.sh"),
		PreRemove: filepath.Join(scripts, "preremove.sh"), PostRemove: filepath.Join(scripts, "postremove.sh")}
	for _, f := range all {
		to, kind := placed(form, f.path)
		if to == "" {
			continue
		}
		from := filepath.Join(dir, filepath.FromSlash(f.path))
		content := f.content
		if path.Dir(to) == units {
			content = bytes.ReplaceAll(content, []byte(byHandPath), []byte(programPath))
		}
		if path.Dir(to) == pages {
			content = compressed(content)
		}
		err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o755), os.WriteFile(from, content, 0o644))
		if err != nil {
			return err
		}
		info.Contents = append(info.Contents, &files.Content{Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.date}})
	}
	packager, err := nfpm.Get(form)
	if err != nil {
		return err
	}
	ready := nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(ready, form); err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := packager.Package(ready, &packed); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, packager.ConventionalFileName(ready)), packed.Bytes(), 0o644)
}
