package persona

import "slices"

// The kinds of receiver, as a prober's table has them: how several sources may use it.
const (
	Narrow  = "narrow"  // one source at a time
	Wide    = "wide"    // each source has its own budget
	Tenants = "tenants" // each source has its own budget, but one domain is used from one source at a time
)

// Receivers that are not narrow.
var (
	wideProviders = []string{"google", "microsoft365", "outlook", "yahoo", "icloud", "gmx", "qq", "netease", "mailru",
		"orange", "laposte", "tonline",
		"docomo", "comcast"}
	tenantsProviders = []string{"mimecast", "proofpoint", "barracuda", "cisco", "zoho", "godaddy"}
)

// Kind says how several sources may use a persona: narrow, wide or tenants.
func (p *Persona) Kind() string {
	switch {
	case slices.Contains(wideProviders, p.Provider):
		return Wide
	case slices.Contains(tenantsProviders, p.Provider):
		return Tenants
	}
	return Narrow
}
