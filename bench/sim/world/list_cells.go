package world

import "strings"

// appendJunk appends typical content of an e-mail column that is not an address.
// Cells with a comma or a quote are quoted (RFC 4180).
func appendJunk(b []byte, p person) []byte {
	at, last := p.first+"@"+p.domain.Name, string(p.last[:])
	switch p.random >> 6 % 16 {
	case 0:
		return append(b, "n/a"...)
	case 1:
		return append(b, "none"...)
	case 2:
		return append(b, "-"...)
	case 3:
		return append(b, p.first+"(at)"+p.domain.Name...)
	case 4:
		return append(b, p.first+" "+last+"@"+p.domain.Name...)
	case 5:
		return append(b, "@"+p.domain.Name...)
	case 6:
		return append(b, p.first+"@"...)
	case 7:
		return append(b, p.first+"@@"+p.domain.Name...)
	case 8:
		return append(b, p.first+".."+last+"@"+p.domain.Name...)
	case 9:
		return append(b, "."+at...)
	case 10:
		return append(b, p.first+"@localhost"...)
	case 11:
		return append(b, p.first+"@"+strings.Replace(p.domain.Name, ".", "..", 1)...)
	case 12:
		return append(b, `"`+at+", "+last+"@"+p.domain.Name+`"`...)
	case 13:
		return append(b, "mailto:"+at...)
	case 14:
		return append(b, p.first+"@-"+p.domain.Name...)
	}
	return append(b, "+49 30 5550"+p.domain.Name[:1]...)
}

// appendCompany appends the company cell; some names need quotes.
func appendCompany(b []byte, p person) []byte {
	first, second := pick(companyFirst, p.random>>5), pick(companySecond, p.random>>11)
	if p.random>>3%20 == 0 {
		b = append(b, '"')
		b = append(appendTitle(b, first), ", "...)
		return append(appendTitle(b, second), ` & Co"`...)
	}
	b = append(appendTitle(b, first), ' ')
	return appendTitle(b, second)
}

// appendNote appends the notes cell: mostly empty, sometimes text that a careless
// CSV reader gets wrong.
func appendNote(b []byte, p person) []byte {
	switch p.random >> 9 % 40 {
	case 0, 1, 2, 3, 4:
		return append(b, "met at the fair"...)
	case 5:
		return append(b, `"likes tea, not coffee"`...)
	case 6:
		return append(b, "\"first line\nsecond line, with a comma\""...)
	case 7:
		return append(b, `"says ""call me"" on Mondays"`...)
	case 8:
		return append(b, "  spaces kept  "...)
	case 9:
		return append(b, "=1+1"...)
	case 10:
		return append(b, "Grüße aus Köln"...)
	}
	return b
}
