package typo

import (
	"iter"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// majorDomains are the domains of the major providers whose names resemble no other word: a typo anywhere in them
// counts. If two are equally close, the earlier wins. Immutable, like the two lists below.
var majorDomains = [...]string{
	"gmail.com", "yahoo.com", "hotmail.com", "outlook.com", "icloud.com", "googlemail.com",
	"yahoo.co.uk", "yahoo.fr", "yahoo.de", "yahoo.it", "yahoo.es", "yahoo.ca", "yahoo.in", "yahoo.co.in", "yahoo.co.id",
	"yahoo.co.jp",
	"yahoo.com.br", "yahoo.com.ar", "yahoo.com.mx", "yahoo.com.au", "yahoo.com.tw", "yahoo.com.hk", "yahoo.com.sg",
	"yahoo.com.ph", "yahoo.com.vn",
	"hotmail.co.uk", "hotmail.fr", "hotmail.de", "hotmail.it", "hotmail.es", "hotmail.be", "hotmail.nl", "hotmail.ca",
	"hotmail.se",
	"hotmail.com.br", "hotmail.com.ar", "hotmail.co.jp", "outlook.fr", "outlook.de", "outlook.es", "outlook.it",
	"outlook.jp", "outlook.com.br",
	"rocketmail.com", "protonmail.com", "protonmail.ch", "proton.me", "fastmail.com", "yandex.ru", "yandex.com",
	"rambler.ru",
	"t-online.de", "freenet.de", "wanadoo.fr", "laposte.net", "tiscali.it", "virgilio.it", "comcast.net", "verizon.net",
	"sbcglobal.net",
	"bellsouth.net", "earthlink.net", "btinternet.com", "virginmedia.com", "ntlworld.com", "blueyonder.co.uk",
	"talktalk.net", "bigpond.com",
	"optusnet.com.au", "foxmail.com", "aliyun.com", "hanmail.net", "rediffmail.com", "seznam.cz", "telenet.be",
	"skynet.be", "bluewin.ch",
}

// majorShort are the major providers whose name is an abbreviation or close to one. One letter more, fewer or different
// is often another company, so only swapped and doubled letters and typos in the top-level domain count.
var majorShort = [...]string{
	"ymail.com", "aol.com", "msn.com", "gmx.com", "gmx.de", "gmx.net", "gmx.at", "gmx.ch", "gmx.fr", "qq.com",
	"163.com", "126.com",
	"sina.com", "sohu.com", "zoho.com", "naver.com", "aol.co.uk", "aol.fr", "aol.de",
}

// majorWords are those whose name is a word. As for majorShort; and the same word under .co, .cm or .om is another
// company.
var majorWords = [...]string{
	"live.com", "me.com", "mac.com", "web.de", "mail.ru", "bk.ru",
	"list.ru", "inbox.ru", "ya.ru", "pm.me", "mail.com", "att.net", "cox.net",
	"charter.net", "orange.fr", "free.fr", "sfr.fr", "libero.it", "alice.it", "tin.it", "sky.com", "shaw.ca",
	"rogers.com", "wp.pl", "o2.pl", "onet.pl",
	"interia.pl", "uol.com.br", "bol.com.br", "terra.com.br", "daum.net", "nate.com", "abv.bg", "ukr.net",
	"live.co.uk", "live.fr", "live.de", "live.it", "live.nl", "live.be", "live.ca", "live.com.au", "live.com.mx",
	"live.cn", "live.se", "live.dk",
}

// otherCompanies are companies of their own, though one typo from a major provider.
var otherCompanies = []string{"ante.com", "cloud.com", "mali.com", "ucloud.com"}

// distinctness is how much a name differs from other names.
type distinctness uint8

const (
	distinctName  distinctness = iota // in majorDomains
	distinctShort                     // in majorShort
	distinctWord                      // in majorWords
)

// MajorDomains lists the domains of the major providers.
func MajorDomains() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range [...][]string{majorDomains[:], majorShort[:], majorWords[:]} {
			for _, d := range list {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// longestMajor is the length of the longest major domain.
const longestMajor = 16

// Suggest returns the major provider's domain that a lower-case domain was probably meant to be: the name, the part
// after it, or both are one typo away, or a dot is in the wrong place. A domain that is major itself or known gets no
// suggestion. isNameTypo says what counts as a typo. It does not allocate.
func Suggest(domain string, known func(string) bool) (string, bool) {
	if len(domain) > longestMajor+2 {
		return "", false
	}
	found := ""
	name, tail, dotted := strings.Cut(domain, ".")
	for kind, list := range [...][]string{majorDomains[:], majorShort[:], majorWords[:]} {
		for _, d := range list {
			n := len(domain) - len(d)
			if n > 2 || n < -2 || domain[0] != d[0] && surelyDistinct(domain, d) {
				continue
			}
			if d == domain {
				return "", false
			}
			if found == "" && isTypo(domain, name, tail, dotted, d, distinctness(kind)) {
				found = d
			}
		}
	}
	if found == "" || slices.Contains(otherCompanies, domain) || known != nil && known(domain) {
		return "", false
	}
	return found, true
}

// surelyDistinct reports whether two domains whose first letters differ cannot be typos of each other. It compares a
// few octets only: the one edit affects the first letter, so what follows the third is the same. The lengths differ by
// at most two, and want has at least five octets. (BenchmarkSuggest)
func surelyDistinct(typed, want string) bool {
	n, m := len(typed), len(want)
	return typed[n-1] != want[m-1] || typed[n-2] != want[m-2] || n > 5 && m > 5 && typed[n-3] != want[m-3] ||
		n > 8 && m > 8 && typed[n-5] != want[m-5]
}

// isTypo reports whether a typed domain, cut at its first dot, is meant to be want.
func isTypo(typed, typedName, typedTail string, dotted bool, want string, kind distinctness) bool {
	name, tail, _ := strings.Cut(want, ".")
	switch {
	case dotted && typedTail == tail:
		return isNameTypo(typedName, name, kind)
	case dotted && typedName == name:
		return isTailTypo(typed, typedTail, tail, kind)
	case kind != distinctName:
		return false
	case dotted && tail == "com" && typed[0] == want[0] && isNameTypo(typedName, name, kind) &&
		isTailTypo(typed, typedTail, tail, kind):
		return true // two typos, the first letter in neither
	}
	return isDotTypo(typed, want)
}

// isTailTypo judges an edit after the name. The name under another real top-level domain is another country's site,
// not a typo; but .co, .cm and .om are common typos of .com, and .c is a truncated .com.
func isTailTypo(typed, typedTail, tail string, kind distinctness) bool {
	if tail == "com" && (typedTail == "co" || typedTail == "cm" || typedTail == "om") {
		return kind != distinctWord
	}
	if e, _ := oneEdit(typedTail, tail); (e == editNone || e == editMove) && (tail != "com" || typedTail != "c") {
		return false
	}
	suffix, icann := publicsuffix.PublicSuffix(typed)
	return !icann && !strings.Contains(suffix, ".") || icann && suffix != typedTail
}

// isDotTypo reports whether two domains differ by one edit, and that it affects a dot.
func isDotTypo(typed, want string) bool {
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
