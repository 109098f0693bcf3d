package engine

// plainAt finds the @ of an address as nearly everybody writes them, in one pass: lower-case ASCII without quotes, nowhere two hyphens
// side by side in the domain. Of any other, right or wrong, it tells false, and Parse looks at it part by part. FuzzParse holds the two
// to each other; BenchmarkParsePlain tells what that saves.
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

// plainDomain is what checkLDH asks of a lower-case domain without A-labels and reserved ones.
func plainDomain(s string) bool {
	before, label, name := byte('.'), 0, false // the last label begins at label, and is no number
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
