package httpd

import (
	"slices"
	"strings"
)

// maxKnownName bounds a name that is compared, in bytes. Every known name is shorter.
const maxKnownName = 32

// checkUnknownField refuses an unknown name that resembles a known one. Other unknown names pass: a client may use a newer
// version of the API.
func checkUnknownField(name string, known []string) error {
	if name == "" || len(name) > maxKnownName || slices.Contains(known, name) {
		return nil
	}
	sent := normalizeName(name)
	for _, k := range known {
		want, maxEdits := normalizeName(k), 1 // one typo, or two in a long name
		if min(len(sent), len(want)) >= 8 {
			maxEdits = 2
		}
		if len(sent) <= maxKnownName && editDistance(sent, want) <= maxEdits { // lower case may be longer
			return Refuse(Unacceptable, "%s is not known: did you mean %s?", quoteName(name), k)
		}
	}
	return nil
}

// editDistance is how many bytes must be added, dropped, replaced or swapped with their neighbour to turn one short string into
// another (the optimal string alignment distance).
func editDistance(a, b string) int {
	var rows [3][maxKnownName + 1]int
	before, last, now := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

// normalizeName drops case and separators, in which naming styles differ.
func normalizeName(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(strings.ToLower(name))
}

// CheckUnknownFields refuses a body with an unknown member that resembles a known one.
func (d *Document) CheckUnknownFields(known []string) error {
	for _, m := range d.members {
		if err := checkUnknownField(string(m.name), known); err != nil {
			return err
		}
	}
	return nil
}
