package doctor

import "context"

// checkTerms lists the receivers whose own terms forbid to verify addresses.
func (c *Config) checkTerms(context.Context) []Finding {
	var all []Finding
	for _, p := range c.Table.Providers {
		s := subject{"terms", p.ID}
		switch {
		case p.TermsForbid && p.Probe:
			all = append(all, s.warn("have its permission, or leave it alone: --respect-terms, or probe = \"off\" in your provider file",
				"its terms forbid to verify addresses, and it is asked (%s)", p.TermsSource))
		case p.TermsForbid:
			all = append(all, s.ok("its terms forbid to verify addresses, and it is left alone (%s)", p.TermsSource))
		}
	}
	return all
}
