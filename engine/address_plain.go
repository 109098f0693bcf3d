package engine

// plainAt finds the @ of a common address in one pass: lower-case ASCII without quotes, no two hyphens in a row in the domain.
// For any other address, valid or not, it returns false, and Parse looks at it part by part. FuzzParse checks that both agree
// (BenchmarkParsePlain).
func plainAt(s string) (at int, ok bool) {
	if len(s) > maxMailbox {
		return 0, false
	}
	before := byte('.')
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z':
		case c == '@':
			return i, before != '.' && i <= maxLocal && plainDomain(s[i+1:])
		case c == '.' && before == '.', c != '.' && !isAtext(c), 'A' <= c && c <= 'Z':
			return 0, false
		}
		before = c
	}
	return 0, false
}

// plainDomain is checkLDH for a lower-case domain without A-labels and reserved labels.
func plainDomain(s string) bool {
	before, label, name := byte('.'), 0, false // the last label begins at label; name: it is not a number
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z':
			name = true
		case '0' <= c && c <= '9':
		case (c == '.' || c == '-') && before != '.' && before != '-':
			if name = c == '-'; !name {
				if i-label > maxLabel {
					return false
				}
				label = i + 1
			}
		default:
			return false
		}
		before = c
	}
	return label > 0 && name && before != '.' && before != '-' && len(s)-label <= maxLabel && len(s) <= maxDomain
}
