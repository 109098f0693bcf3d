package world

import (
	"slices"
	"strings"

	"probity/bench/sim/persona"
)

// routeKey names the route of a domain: its provider, the domain if that has tenants, or its sorted hosts; empty if it
// is wide.
func routeKey(d *Domain) string {
	switch kind := d.Persona.Kind(); {
	case kind == persona.Wide:
		return ""
	case kind == persona.Tenants:
		return d.Name
	case d.Persona.Provider != "":
		return d.Persona.Provider
	case len(d.MX) == 0:
		return d.Name // RFC 5321 section 5.1: the domain is its own host
	}
	hosts := make([]string, len(d.MX))
	for i, mx := range d.MX {
		hosts[i] = mx.Host
	}
	slices.Sort(hosts)
	return strings.Join(hosts, ",")
}
