package providerview

import (
	"slices"
	"strings"

	"probity/engine"
)

// maxSuggestions is how many names a hint lists at most.
const maxSuggestions = 5

// Suggest lists provider ids whose name, id or alias is within maxEdits edits of word.
func Suggest(t *engine.Table, word string, maxEdits int) (near []string) {
	word = strings.ToLower(word)
	for _, p := range t.Providers {
		for _, name := range append([]string{p.ID, strings.ToLower(p.Name)}, p.Aliases...) {
			if EditDistance(word, name) <= maxEdits && !slices.Contains(near, p.ID) {
				near = append(near, p.ID)
			}
		}
	}
	return near[:min(len(near), maxSuggestions)]
}

// DidYouMean writes a hint; "" without suggestions.
func DidYouMean(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// EditDistance counts the letters to add, drop, change or swap with the next that turn one word into the other.
func EditDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var older, old []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		older, old, row = old, row, make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			change := 1
			if x[i] == y[j] {
				change = 0
			}
			row[j+1] = min(old[j]+change, old[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(y)]
}
