// Command licences writes docs/licences.md: every module that is linked into the program and every npm package that is
// bundled into the dashboard, with version and licence; and internal/licences/texts.gz with their texts. It reads the
// module cache, the lock file and the dashboard's node_modules, and uses no network.
//
//	cd tools && go run ./licences ..        writes
//	cd tools && go run ./licences -check .. reports whether the file differs
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// part is a module or package that is distributed with the program.
type part struct {
	name, version, licence string
	texts                  []string // of its licences and notices
}

func main() {
	check := flag.Bool("check", false, "only tell whether the page is up to date")
	flag.Parse()
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	modules, err := linked(root)
	if err != nil {
		return err
	}
	packages, err := bundled(filepath.Join(root, "api", "web", "package-lock.json"))
	if err != nil {
		return err
	}
	var page bytes.Buffer
	page.WriteString("# Licences\n\nWhat is distributed with Probity, and under which licence. Made by `make licences` from the module cache and the dashboard's\n" +
		"lock file; not written by hand. `probity licences` prints the texts.\n")
	write(&page, "Linked into the program", modules)
	write(&page, "Bundled into the dashboard", packages)
	texts, err := packTexts(root, slices.Concat(modules, packages))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"docs/licences.md": page.Bytes(), "internal/licences/texts.gz": texts} {
		path := filepath.Join(root, name)
		if !check {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				return err
			}
			continue
		}
		had, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(had, content) {
			err = errors.New(name + " is out of date: run make licences")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// packTexts packs the texts of all parts, after those of the program itself. A text that several parts have comes once.
func packTexts(root string, parts []part) ([]byte, error) {
	own, err := textsIn(root)
	if err != nil {
		return nil, err
	}
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	ofGo, err := textsIn(strings.TrimSpace(string(goRoot)))
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	var order []string
	for _, p := range append([]part{{name: "probity", texts: own}, {name: "the Go standard library", texts: ofGo}}, parts...) {
		if len(p.texts) == 0 { // an npm package without the text of its licence
			p.texts = []string{"Licence: " + p.licence}
		}
		for _, text := range p.texts {
			if names[text] == nil {
				order = append(order, text)
			}
			names[text] = append(names[text], strings.TrimSpace(p.name+" "+p.version))
		}
	}
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	for _, text := range order {
		fmt.Fprintf(to, "%s\n\n%s\n\n%s\n\n", strings.Join(names[text], ", "), text, strings.Repeat("-", 80))
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// textsIn reads the licences and notices of a folder.
func textsIn(dir string) (texts []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name := strings.ToLower(f.Name())
		starts := func(with string) bool { return strings.HasPrefix(name, with) }
		if f.IsDir() || !slices.ContainsFunc([]string{"licen", "copying", "unlicense", "notice", "patents"}, starts) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	return texts, nil
}

func write(page *bytes.Buffer, title string, parts []part) {
	fmt.Fprintf(page, "\n## %s\n\n| what | version | licence |\n|---|---|---|\n", title)
	for _, p := range parts {
		fmt.Fprintf(page, "| %s | %s | %s |\n", p.name, p.version, p.licence)
	}
}

// linked lists the modules that packages of the program come from.
func linked(root string) ([]part, error) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{with or .Replace .}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}{{end}}", "./cmd/probity")
	list.Dir, list.Stderr = root, os.Stderr
	list.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64") // the same page on any machine
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	var parts []part
	for _, line := range slices.Compact(lines) {
		fields := strings.Split(line, "\t")
		if len(fields) != 3 {
			continue
		}
		licence, texts, err := licenceIn(fields[2])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fields[0], err)
		}
		parts = append(parts, part{fields[0], fields[1], licence, texts})
	}
	return parts, nil
}

// licenceIn recognises the licence of a folder, or of the one above it for a module below another's root, and reads the
// texts there.
func licenceIn(dir string) (licence string, texts []string, err error) {
	for range 3 {
		texts, err := textsIn(dir)
		if err != nil {
			return "", nil, err
		}
		var names []string
		for _, text := range texts {
			if name := recognise(text); name != unrecognised || len(texts) == 1 {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if len(names) > 0 {
			return strings.Join(slices.Compact(names), ", "), texts, nil
		}
		dir = filepath.Dir(dir)
	}
	return "", nil, errors.New("no licence found: it may not be distributed")
}

// unrecognised is the licence of a text that has the words of none.
const unrecognised = "other: read it"

// marks are words that only one licence has, in the order of the search.
var marks = []struct{ words, name string }{
	{"Apache License", "Apache-2.0"},
	{"Mozilla Public License Version 2.0", "MPL-2.0"}, {"Mozilla Public License, version 2.0", "MPL-2.0"},
	{"GNU AFFERO", "AGPL"}, {"GNU LESSER", "LGPL"}, {"GNU GENERAL PUBLIC", "GPL"},
	{"This is free and unencumbered software", "Unlicense"}, {"CC0 1.0", "CC0-1.0"},
	{"Neither the name", "BSD-3-Clause"}, {"names of its contributors may be used", "BSD-3-Clause"},
	{"Redistribution and use in source and binary forms", "BSD-2-Clause"},
	{"Permission to use, copy, modify, and/or distribute", "ISC"}, {"Permission to use, copy, modify, and distribute", "ISC"},
	{"Permission is hereby granted, free of charge", "MIT"},
}

func recognise(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range marks {
		if strings.Contains(text, m.words) {
			return m.name
		}
	}
	return unrecognised
}

// bundled lists the packages of a lock file that are not development tools; those that are installed on some machines
// only are parts of such tools.
func bundled(path string) ([]part, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev, DevOptional bool
			Optional         bool
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var parts []part
	for place, p := range lock.Packages {
		tool := p.Dev || p.DevOptional || p.Optional
		if at := strings.LastIndex(place, "node_modules/"); at >= 0 && !tool {
			texts, err := textsIn(filepath.Join(filepath.Dir(path), place))
			if err != nil {
				return nil, fmt.Errorf("%w: run npm ci in api/web", err)
			}
			if p.License == "" {
				p.License = licenceInReadme(filepath.Join(filepath.Dir(path), place))
			}
			parts = append(parts, part{place[at+len("node_modules/"):], p.Version, p.License, texts})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name+a.version, b.name+b.version) })
	same := func(a, b part) bool { return a.name == b.name && a.version == b.version }
	return slices.CompactFunc(parts, same), nil
}

// readmeLicence is the last section of the readme of an npm package, if it is only the name of a licence.
var readmeLicence = regexp.MustCompile(`(?s)\n## Licen[cs]e\s+(MIT|ISC|BSD-[23]-Clause|Apache-2\.0)\s*$`)

// licenceInReadme returns the licence of an npm package that names it only there.
func licenceInReadme(dir string) string {
	for _, name := range []string{"README.md", "Readme.md", "readme.md"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if m := readmeLicence.FindSubmatch(text); err == nil && m != nil {
			return string(m[1])
		}
	}
	return unrecognised
}
