package engine

import (
	"iter"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// great are the domains of the great providers whose names are near no other word: a slip anywhere in them is believed.
// Where two are equally near, the earlier wins. Immutable, like the two lists below.
var great = [...]string{
	"gmail.com", "yahoo.com", "hotmail.com", "outlook.com", "icloud.com", "googlemail.com",
	"yahoo.co.uk", "yahoo.fr", "yahoo.de", "yahoo.it", "yahoo.es", "yahoo.ca", "yahoo.in", "yahoo.co.in", "yahoo.co.id", "yahoo.co.jp",
	"yahoo.com.br", "yahoo.com.ar", "yahoo.com.mx", "yahoo.com.au", "yahoo.com.tw", "yahoo.com.hk", "yahoo.com.sg", "yahoo.com.ph", "yahoo.com.vn",
	"hotmail.co.uk", "hotmail.fr", "hotmail.de", "hotmail.it", "hotmail.es", "hotmail.be", "hotmail.nl", "hotmail.ca", "hotmail.se",
	"hotmail.com.br", "hotmail.com.ar", "hotmail.co.jp", "outlook.fr", "outlook.de", "outlook.es", "outlook.it", "outlook.jp", "outlook.com.br",
	"rocketmail.com", "protonmail.com", "protonmail.ch", "proton.me", "fastmail.com", "yandex.ru", "yandex.com", "rambler.ru",
	"t-online.de", "freenet.de", "wanadoo.fr", "laposte.net", "tiscali.it", "virgilio.it", "comcast.net", "verizon.net", "sbcglobal.net",
	"bellsouth.net", "earthlink.net", "btinternet.com", "virginmedia.com", "ntlworld.com", "blueyonder.co.uk", "talktalk.net", "bigpond.com",
	"optusnet.com.au", "foxmail.com", "aliyun.com", "hanmail.net", "rediffmail.com", "seznam.cz", "telenet.be", "skynet.be", "bluewin.ch",
}

// greatShort are the great providers whose name is an abbreviation or nearly so. One letter more, less or other makes another
// company of it, so only swapped and doubled letters and slips in the top-level domain count.
var greatShort = [...]string{
	"ymail.com", "aol.com", "msn.com", "gmx.com", "gmx.de", "gmx.net", "gmx.at", "gmx.ch", "gmx.fr", "qq.com", "163.com", "126.com",
	"sina.com", "sohu.com", "zoho.com", "naver.com", "aol.co.uk", "aol.fr", "aol.de",
}

// greatWords are those whose name is a word. In addition to what greatShort says, the same word under .co, .cm or .om is another's.
var greatWords = [...]string{
	"live.com", "me.com", "mac.com", "web.de", "mail.ru", "bk.ru",
	"list.ru", "inbox.ru", "ya.ru", "pm.me", "mail.com", "att.net", "cox.net",
	"charter.net", "orange.fr", "free.fr", "sfr.fr", "libero.it", "alice.it", "tin.it", "sky.com", "shaw.ca", "rogers.com", "wp.pl", "o2.pl", "onet.pl",
	"interia.pl", "uol.com.br", "bol.com.br", "terra.com.br", "daum.net", "nate.com", "abv.bg", "ukr.net",
	"live.co.uk", "live.fr", "live.de", "live.it", "live.nl", "live.be", "live.ca", "live.com.au", "live.com.mx", "live.cn", "live.se", "live.dk",
}

// ownNames are companies of their own, though one slip from a great provider.
var ownNames = []string{"ante.com", "cloud.com", "mali.com", "ucloud.com"}

// distinct is how much a name can be told from other names.
type distinct uint8

const (
	distinctName  distinct = iota // in great
	distinctShort                 // in greatShort
	distinctWord                  // in greatWords
)

// Great gives the domains of the great providers.
func Great() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range [...][]string{great[:], greatShort[:], greatWords[:]} {
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

// Suggest names the great provider's domain that a lower-case domain was probably meant to be: the name, the part behind it, or both
// are one slip away, or a dot is in the wrong place. It has nothing to say of a domain that is great itself or known. What counts as a
// slip is in slip.go. Nothing is allocated.
func Suggest(domain string, known func(string) bool) (string, bool) {
	if len(domain) > longestGreat+2 {
		return "", false
	}
	found := ""
	name, tail, dotted := strings.Cut(domain, ".")
	for kind, list := range [...][]string{great[:], greatShort[:], greatWords[:]} {
		for _, d := range list {
			n := len(domain) - len(d)
			if n > 2 || n < -2 || domain[0] != d[0] && apart(domain, d) {
				continue
			}
			if d == domain {
				return "", false
			}
			if found == "" && isSlip(domain, name, tail, dotted, d, distinct(kind)) {
				found = d
			}
		}
	}
	if found == "" || slices.Contains(ownNames, domain) || known != nil && known(domain) {
		return "", false
	}
	return found, true
}

// apart reports that two domains whose first letters differ are surely no slip of each other, at the price of a few octets: the first
// letter is within the one edit, and what stands behind the third is the same. Their lengths differ by two at most, and want has five
// octets or more. (BenchmarkSuggest: three fifths of the time that it took without.)
func apart(typed, want string) bool {
	n, m := len(typed), len(want)
	return typed[n-1] != want[m-1] || typed[n-2] != want[m-2] || n > 5 && m > 5 && typed[n-3] != want[m-3] || n > 8 && m > 8 && typed[n-5] != want[m-5]
}

// isSlip reports that a typed domain, cut at its first dot, is meant to be want.
func isSlip(typed, typedName, typedTail string, dotted bool, want string, kind distinct) bool {
	name, tail, _ := strings.Cut(want, ".")
	switch {
	case dotted && typedTail == tail:
		return isNameSlip(typedName, name, kind)
	case dotted && typedName == name:
		return isTailSlip(typed, typedTail, tail, kind)
	case kind != distinctName:
		return false
	case dotted && tail == "com" && typed[0] == want[0] && isNameSlip(typedName, name, kind) && isTailSlip(typed, typedTail, tail, kind):
		return true // two slips: not with the first letter among them
	}
	return isDotSlip(typed, want)
}

// isTailSlip judges an edit behind the name. The name under another real top-level domain is another country's site,
// not a slip; except that .co, .cm and .om are where people land who wanted .com, and .c is .com cut short.
func isTailSlip(typed, typedTail, tail string, kind distinct) bool {
	if tail == "com" && (typedTail == "co" || typedTail == "cm" || typedTail == "om") {
		return kind != distinctWord
	}
	if e, _ := oneEdit(typedTail, tail); (e == editNone || e == editMove) && (tail != "com" || typedTail != "c") {
		return false
	}
	suffix, icann := publicsuffix.PublicSuffix(typed)
	return !icann && !strings.Contains(suffix, ".") || icann && suffix != typedTail
}

// isDotSlip reports that two domains differ by one edit, which is of a dot.
func isDotSlip(typed, want string) bool {
	e, i := oneEdit(typed, want)
	switch {
	case e == editNone || e == editMove:
		return false
	case len(typed) > len(want):
		return typed[i] == '.'
	case len(typed) < len(want):
		return want[i] == '.'
	case e == editSwap:
		return typed[i] == '.' || want[i] == '.'
	}
	return want[i] == '.' || typed[i] == '.'
}
