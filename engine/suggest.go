package engine

import (
	"iter"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// great are the domains of the great providers whose names are near no other word: any one edit of them is taken for a slip.
// Where two are equally near, the earlier wins. Immutable, like greatWords.
var great = [...]string{
	"gmail.com", "yahoo.com", "hotmail.com", "outlook.com", "icloud.com", "googlemail.com",
	"yahoo.co.uk", "yahoo.fr", "yahoo.de", "yahoo.it", "yahoo.es", "yahoo.ca", "yahoo.in", "yahoo.co.in", "yahoo.co.id", "yahoo.co.jp",
	"yahoo.com.br", "yahoo.com.ar", "yahoo.com.mx", "yahoo.com.au", "yahoo.com.tw", "yahoo.com.hk", "yahoo.com.sg", "yahoo.com.ph", "yahoo.com.vn",
	"hotmail.co.uk", "hotmail.fr", "hotmail.de", "hotmail.it", "hotmail.es", "hotmail.be", "hotmail.nl", "hotmail.ca", "hotmail.se",
	"hotmail.com.br", "hotmail.com.ar", "hotmail.co.jp", "outlook.fr", "outlook.de", "outlook.es", "outlook.it", "outlook.jp", "outlook.com.br",
	"ymail.com", "rocketmail.com", "protonmail.com", "protonmail.ch", "proton.me", "fastmail.com", "yandex.ru", "yandex.com", "rambler.ru",
	"t-online.de", "freenet.de", "wanadoo.fr", "laposte.net", "tiscali.it", "virgilio.it", "comcast.net", "verizon.net", "sbcglobal.net",
	"bellsouth.net", "earthlink.net", "btinternet.com", "virginmedia.com", "ntlworld.com", "blueyonder.co.uk", "talktalk.net", "bigpond.com",
	"optusnet.com.au", "foxmail.com", "aliyun.com", "hanmail.net", "rediffmail.com", "seznam.cz", "telenet.be", "skynet.be", "bluewin.ch",
}

// greatWords are the great providers with a short or common name. One letter more, less or other makes another word or
// another company of it, so only swapped and doubled letters and slips in the top-level domain count.
var greatWords = [...]string{
	"aol.com", "live.com", "msn.com", "me.com", "mac.com", "gmx.de", "gmx.net", "gmx.com", "gmx.at", "gmx.ch", "gmx.fr", "web.de", "mail.ru", "bk.ru",
	"list.ru", "inbox.ru", "ya.ru", "qq.com", "163.com", "126.com", "sina.com", "sohu.com", "pm.me", "zoho.com", "mail.com", "att.net", "cox.net",
	"charter.net", "orange.fr", "free.fr", "sfr.fr", "libero.it", "alice.it", "tin.it", "sky.com", "shaw.ca", "rogers.com", "wp.pl", "o2.pl", "onet.pl",
	"interia.pl", "uol.com.br", "bol.com.br", "terra.com.br", "naver.com", "daum.net", "nate.com", "abv.bg", "ukr.net", "aol.co.uk", "aol.fr", "aol.de",
	"live.co.uk", "live.fr", "live.de", "live.it", "live.nl", "live.be", "live.ca", "live.com.au", "live.com.mx", "live.cn", "live.se", "live.dk",
}

// Great gives the domains of the great providers.
func Great() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range [...][]string{great[:], greatWords[:]} {
			for _, d := range list {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// longestGreat is the length of the longest of them.
const longestGreat = 16

// Suggest names the great provider's domain that a lower-case domain is one slip away from: one character more, less, other,
// or two neighbours swapped, the dot included. It has nothing to say of a domain that is great itself or known.
// About a hundred lengths and first letters are compared, and few strings; nothing is allocated.
func Suggest(domain string, known func(string) bool) (string, bool) {
	if len(domain) > longestGreat+1 {
		return "", false
	}
	found := ""
	for i, d := range great {
		if n := len(domain) - len(d); n > 1 || n < -1 || domain[0] != d[0] && apart(domain, d) {
			continue
		}
		if d == domain {
			return "", false
		}
		if found == "" && isSlip(domain, d, false) {
			found = great[i]
		}
	}
	for i, d := range greatWords {
		if n := len(domain) - len(d); n > 1 || n < -1 || domain[0] != d[0] && apart(domain, d) {
			continue
		}
		if d == domain {
			return "", false
		}
		if found == "" && isSlip(domain, d, true) {
			found = greatWords[i]
		}
	}
	if found == "" || domain == "cloud.com" || known != nil && known(domain) { // cloud.com is a company of its own
		return "", false
	}
	return found, true
}

// apart reports that two domains whose first letters differ are surely more than one edit from each other, at the price of a few
// octets: the first letter is the edit, and what stands behind the second is the same. Their lengths differ by one at most, and
// want has five octets or more. (BenchmarkSuggest: a quarter of the time that it took without, or less.)
func apart(typed, want string) bool {
	n, m := len(typed), len(want)
	return typed[n-1] != want[m-1] || typed[n-2] != want[m-2] || typed[n-3] != want[m-3] || m > 6 && typed[n-5] != want[m-5]
}

// isSlip reports that typed is meant to be want. word says that want is one of greatWords.
func isSlip(typed, want string, word bool) bool {
	e := oneEdit(typed, want)
	if e == editNone {
		return false
	}
	typedName, typedTail, dotted := strings.Cut(typed, ".")
	name, tail, _ := strings.Cut(want, ".")
	switch {
	case dotted && typedName == name:
		return isTailSlip(typed, typedTail, tail, word)
	case dotted && typedTail == tail:
		return !word || e == editSwap || e == editDouble
	}
	return !word // a dot too many, too few, or in the wrong place
}

// isTailSlip judges an edit behind the name. The name under another real top-level domain is another country's site,
// not a slip; except that .co, .cm and .om are where people land who wanted .com.
func isTailSlip(typed, typedTail, tail string, word bool) bool {
	if tail == "com" && (typedTail == "co" || typedTail == "cm" || typedTail == "om") {
		return !word
	}
	suffix, icann := publicsuffix.PublicSuffix(typed)
	return !icann && !strings.Contains(suffix, ".") || icann && suffix != typedTail
}

// edit is the kind of the one difference between two strings.
type edit uint8

const (
	editNone   edit = iota // equal, or further apart
	editOther              // a character replaced, missing or too many
	editSwap               // two neighbours swapped
	editDouble             // a character typed twice, or once where it is double
)

// oneEdit compares two strings whose Damerau-Levenshtein distance may be one.
func oneEdit(a, b string) edit {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a)-len(b) > 1 || a == b {
		return editNone
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	switch {
	case len(a) > len(b):
		if a[i+1:] != b[i:] {
			return editNone
		}
		if i > 0 && a[i] == a[i-1] {
			return editDouble
		}
		return editOther
	case a[i+1:] == b[i+1:]:
		return editOther
	case a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]:
		return editSwap
	}
	return editNone
}
