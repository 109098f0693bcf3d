package httpd

import (
	"cmp"
	"slices"
	"strings"
)

// maxKnownName is how much of a name is compared, in bytes. Every known name is shorter.
const maxKnownName = 32

// checkName refuses a name that is not known, and says which known one is the nearest: what is ignored could be a
// restriction, or a callback, that is then missing.
func checkName(name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	if len(known) == 0 {
		return Refuse(Unacceptable, "%s is not known: send this request without it.", quoteName(name))
	}
	return Refuse(Unacceptable, "%s is not known: did you mean %s? Known are %s.",
		quoteName(name), nearestName(name, known), strings.Join(known, ", "))
}

// nearestName returns the known name that is nearest to name.
func nearestName(name string, known []string) string {
	sent := normalizeName(name)
	sent = sent[:min(len(sent), maxKnownName)]
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' || r == ' ' })
	distance := func(k string) int { // a word in common counts as its letters
		edits := editDistance(sent, normalizeName(k))
		for word := range strings.SplitSeq(k, "_") {
			if slices.Contains(words, word) {
				edits -= len(word)
			}
		}
		return edits
	}
	return slices.MinFunc(known, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
}

// editDistance returns how many bytes must be added, dropped, replaced or swapped with their neighbour to turn one
// short string into another (the optimal string alignment distance).
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
