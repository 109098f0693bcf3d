package typo

import "strings"

// shortName is the length of a short name: another letter in a name up to this length often makes another word.
const shortName = 5

// isNameTypo reports whether a typed name is meant to be want.
//
//   - Two neighbours swapped, and a letter doubled or a double one typed once, are typos; but not the first letter
//     doubled in an abbreviation or word, not two letters swapped in one of three letters, and not a letter doubled in
//     a word of three.
//   - A letter two places from where it belongs, and a missing letter, are typos in a distinct name.
//   - Another letter is a typo if it is next to the right one on the keyboard, looks like it, repeats its neighbour, or
//     is a vowel for a vowel; in a longer name, any letter is. The first letter must be the next key in its row, or
//     look like the right one.
//   - An extra letter is a typo if it is near its neighbours on the keyboard or repeats one, or ends the name; in a
//     longer name anywhere except in front. So is a hyphen.
func isNameTypo(typed, want string, kind distinctness) bool {
	e, i := oneEdit(typed, want)
	short := len(want) <= shortName
	switch e {
	case editNone:
		return false
	case editSwap:
		return kind == distinctName || len(want) > 3
	case editDouble:
		return kind == distinctName || i > 1 && (kind == distinctShort || len(want) > 3)
	}
	switch {
	case kind != distinctName:
		return false
	case e == editMove:
		return !short || i > 0
	case len(typed) < len(want):
		return true
	case len(typed) > len(want):
		return isStray(typed, i) || !short && i > 0 && isLatin(typed[i])
	case i == 0:
		return sameRow(typed[0], want[0]) || looksLike(typed[0], want[0])
	}
	near := adjacent(typed[i], want[i]) || looksLike(typed[i], want[i]) || isVowel(typed[i]) && isVowel(want[i])
	repeats := typed[i] == typed[i-1] || i+1 < len(typed) && typed[i] == typed[i+1]
	return near || repeats || !short && isLatin(typed[i])
}

// isStray reports whether the character at i came from a finger that touched two keys, or from one that was too early
// or too late.
func isStray(typed string, i int) bool {
	if typed[i] == '-' || i == len(typed)-1 && isLatin(typed[i]) {
		return true
	}
	for j := max(0, i-2); j <= min(len(typed)-1, i+2); j++ {
		if j != i && (typed[j] == typed[i] || adjacent(typed[j], typed[i])) {
			return true
		}
	}
	return false
}

// The rows of a keyboard, and how far each is shifted to the right, in quarters of a key width.
var (
	keyRows   = [...]string{"1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm"}
	keyShifts = [...]int{0, 2, 3, 5}
)

// keyAt is the position of a key: its row, and its left edge in quarters of a key width.
func keyAt(c byte) (row, x int, ok bool) {
	for row, keys := range keyRows {
		if col := strings.IndexByte(keys, c); col >= 0 {
			return row, 4*col + keyShifts[row], true
		}
	}
	return 0, 0, false
}

// adjacent reports two keys that touch.
func adjacent(a, b byte) bool {
	rowA, xA, okA := keyAt(a)
	rowB, xB, okB := keyAt(b)
	row, x := abs(rowA-rowB), abs(xA-xB)
	return okA && okB && a != b && row <= 1 && (x < 4 || row == 0 && x == 4)
}

// sameRow reports two neighbours in one row.
func sameRow(a, b byte) bool {
	rowA, _, _ := keyAt(a)
	rowB, _, _ := keyAt(b)
	return rowA == rowB && adjacent(a, b)
}

// looksLike reports two characters that are confused when an address is copied.
func looksLike(a, b byte) bool {
	for _, class := range [...]string{"il1", "o0", "vy"} {
		if strings.IndexByte(class, a) >= 0 && strings.IndexByte(class, b) >= 0 {
			return true
		}
	}
	return false
}

func isVowel(c byte) bool { return strings.IndexByte("aeiou", c) >= 0 }
func isLatin(c byte) bool { return 'a' <= c && c <= 'z' }

func abs(n int) int { return max(n, -n) }

// edit is the kind of the one difference between two strings.
type edit uint8

const (
	editNone   edit = iota // equal, or further apart
	editOther              // a character replaced, missing or too many
	editSwap               // two neighbours swapped
	editDouble             // a character typed twice, or once where it is double
	editMove               // a character two places from where it belongs
)

// oneEdit returns the one edit between two strings and the first index where they differ: for an extra or a missing
// character, its index in the longer one.
func oneEdit(a, b string) (edit, int) {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a)-len(b) > 1 || a == b {
		return editNone, 0
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	rest := len(b) - i
	switch {
	case len(a) > len(b):
		if a[i+1:] != b[i:] {
			return editNone, 0
		}
		if i > 0 && a[i] == a[i-1] {
			return editDouble, i
		}
		return editOther, i
	case a[i+1:] == b[i+1:]:
		return editOther, i
	case a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]:
		return editSwap, i
	case rest >= 3 && a[i+3:] == b[i+3:] && (a[i:i+2] == b[i+1:i+3] && a[i+2] == b[i] ||
		a[i+1:i+3] == b[i:i+2] && a[i] == b[i+2]):
		return editMove, i
	}
	return editNone, 0
}
