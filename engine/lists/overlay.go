package lists

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"probity/engine"
	"probity/engine/tomlfile"
	"probity/engine/typo"
)

// maxOverlay bounds an operator's file of changes.
const maxOverlay = 8 << 20

// overlay is an operator's file: what to add to each list and what to remove from it.
type overlay struct {
	Disposable changes `toml:"disposable"`
	Free       changes `toml:"free"`
	Role       changes `toml:"role"`
	Alias      changes `toml:"alias"`
}

type changes struct {
	Add    []string `toml:"add"`
	Remove []string `toml:"remove"`
}

// Override applies an operator's file to the lists; s itself is not changed. What the file adds to one list is removed
// from those that contradict it: a domain is not disposable and free, nor disposable and an alias service. Every error
// is ErrRefused and names the line if it can.
func (s *Set) Override(data []byte) (*Set, error) {
	if len(data) > maxOverlay {
		return nil, refuse("%d bytes; at most %d are read", len(data), maxOverlay)
	}
	var f overlay
	if err := tomlfile.Decode(data, &f); err != nil {
		return nil, refuse("%v", err)
	}
	o := editor{data: data}
	disposable, free := o.edit("disposable", s.disposable, f.Disposable, listedParent),
		o.edit("free", s.free, f.Free, engine.ParseDomain)
	alias, role := o.edit("alias", s.alias, f.Alias, listedParent), o.edit("role", s.role, f.Role, roleWord)
	o.keepMajorDomains("disposable", disposable, added)
	o.keepMajorDomains("alias", alias, added)
	o.keepMajorDomains("free", free, removed)
	o.exclude("disposable", disposable, "free", free)
	o.exclude("disposable", disposable, "alias", alias)
	if o.err != nil {
		return nil, o.err
	}
	fingerprint := fmt.Sprintf("%s over sha256:%x", s.fingerprint, sha256.Sum256(data))
	next, err := read(render(fingerprint, []changedList{
		{"disposable", s.disposable, disposable}, {"free", s.free, free}, {"alias", s.alias, alias},
		{"role", s.role, role}, {"qualifier", s.qualifier, nil}}))
	if err != nil {
		return nil, err
	}
	o.checkRemoved("disposable", f.Disposable.Remove, next.Disposable)
	o.checkRemoved("alias", f.Alias.Remove, next.Alias)
	o.checkAdded("free", f.Free.Add, next)
	o.checkAdded("alias", f.Alias.Add, next)
	if o.err != nil {
		return nil, o.err
	}
	next.warnings = o.warnings
	return next, nil
}

// editor collects the changes of a file and keeps the first error.
type editor struct {
	data     []byte
	err      error
	warnings []string
}

// edit returns the entries of one table in listed form: true for those to add, false for those to remove.
func (e *editor) edit(table string, old *index, c changes, parse func(string) (string, error)) map[string]bool {
	out := make(map[string]bool, len(c.Add)+len(c.Remove))
	for i, raw := range slices.Concat(c.Add, c.Remove) {
		name, err := parse(raw)
		if err != nil {
			e.refuse(table, raw, "%v", err)
			continue
		}
		add := i < len(c.Add)
		if was, twice := out[name]; twice && was != add {
			e.refuse(table, raw, "it is in add and in remove: keep one")
		}
		out[name] = add
		if !add && !old.has(name) {
			e.warnings = append(e.warnings, e.place(table, raw)+
				": it is not on the list, and remove does nothing: correct it, or take it out")
		}
	}
	return out
}

// What a file does with a name of a list.
const (
	added   = true
	removed = false
)

// keepMajorDomains refuses one of both changes of a major provider's domain or a parent of it.
func (e *editor) keepMajorDomains(table string, changed map[string]bool, refused bool) {
	for major := range typo.MajorDomains() {
		for name, more := major, true; more; _, name, more = strings.Cut(name, ".") {
			if add, is := changed[name]; is && add == refused {
				e.refuse(table, name, "%s gives free mailboxes, and neither disposable ones nor aliases; take it out",
					major)
			}
		}
	}
}

// exclude refuses a domain that the file adds to two contradicting lists. What it adds to one is removed from the
// other.
func (e *editor) exclude(table string, a map[string]bool, other string, b map[string]bool) {
	for name, add := range a {
		if add && b[name] {
			e.refuse(table, name, "it is added to %s as well: keep one", other)
		}
		if add {
			b[name] = false
		}
	}
	for name, add := range b {
		if add {
			a[name] = false
		}
	}
}

// checkRemoved refuses to remove what a listed parent domain still covers.
func (e *editor) checkRemoved(table string, removed []string, covered func(string) bool) {
	for _, raw := range removed {
		if name, err := engine.ParseDomain(raw); err == nil && covered(name) {
			e.refuse(table, raw, "a domain above it is listed and covers it: remove that one")
		}
	}
}

// checkAdded refuses a free or alias domain under a disposable one.
func (e *editor) checkAdded(table string, added []string, next *Set) {
	for _, raw := range added {
		if name, err := engine.ParseDomain(raw); err == nil && next.Disposable(name) {
			e.refuse(table, raw, "a domain above it is disposable and covers it: remove that one from disposable")
		}
	}
}

func (e *editor) refuse(table, entry, format string, args ...any) {
	if e.err != nil {
		return
	}
	e.err = refuse("%s: %s", e.place(table, entry), fmt.Sprintf(format, args...))
}

// place says where an entry is in the file.
func (e *editor) place(table, entry string) string {
	where := fmt.Sprintf("%s: %.80q", table, entry)
	if line := tomlfile.LineOf(e.data, table, entry); line > 0 {
		where = fmt.Sprintf("line %d: %s", line, where)
	}
	return where
}

// listedParent parses a domain whose listing covers all domains under it. A public suffix would cover unrelated
// domains.
func listedParent(raw string) (string, error) {
	name, err := engine.ParseDomain(raw)
	if err != nil {
		return "", err
	}
	if suffix, icann := publicsuffix.PublicSuffix(name); icann && suffix == name {
		return "", errors.New("names are registered under it, and it would cover them all; list the domain itself")
	}
	return name, nil
}

// roleWord parses a role into its listed form: without separators and final digits.
func roleWord(raw string) (string, error) {
	name := strings.TrimRight(strings.NewReplacer(".", "", "-", "", "_", "").Replace(strings.ToLower(raw)),
		"0123456789")
	if !isWord(name) {
		return "", errors.New("a role is 2 to 64 letters a to z, with dots, hyphens, underscores or digits as you like")
	}
	return name, nil
}

// changedList is one list and its changes.
type changedList struct {
	name   string
	old    *index
	change map[string]bool // true for added, false for removed
}

// render writes lists in the format of doc.go.
func render(fingerprint string, all []changedList) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\ninputs %s\n", version, fingerprint)
	for _, l := range all {
		var entries []string
		l.old.each(func(name string) {
			if _, changed := l.change[name]; !changed {
				entries = append(entries, name)
			}
		})
		for name, add := range l.change {
			if add {
				entries = append(entries, name)
			}
		}
		fmt.Fprintf(&b, "[%s] %d\n", l.name, len(entries))
		for _, e := range entries {
			b.WriteString(e)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
