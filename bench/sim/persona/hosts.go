package persona

import "strings"

// fixedHosts returns the same hosts for every domain.
func fixedHosts(hosts ...string) func(string) []string {
	return func(string) []string { return hosts }
}

// hostsUnder makes host names below the domain itself.
func hostsUnder(labels ...string) func(string) []string {
	return func(domain string) []string {
		hosts := make([]string, len(labels))
		for i, label := range labels {
			hosts[i] = label + "." + domain
		}
		return hosts
	}
}

// tenantHost makes one host per domain below a provider's suffix, with dashes for
// the dots of the domain, as hosted gateways do.
func tenantHost(prefix, suffix string) func(string) []string {
	return func(domain string) []string {
		return []string{prefix + strings.ReplaceAll(domain, ".", "-") + suffix}
	}
}

// tenantHosts is tenantHost with several hosts.
func tenantHosts(domain string, suffixes ...string) []string {
	name := strings.ReplaceAll(domain, ".", "-")
	hosts := make([]string, len(suffixes))
	for i, suffix := range suffixes {
		hosts[i] = name + suffix
	}
	return hosts
}

// googleHosts distinguishes the consumer service from hosted domains.
func googleHosts(domain string) []string {
	if domain == "gmail.com" || domain == "googlemail.com" {
		return []string{"gmail-smtp-in.l.google.com", "alt1.gmail-smtp-in.l.google.com",
			"alt2.gmail-smtp-in.l.google.com"}
	}
	return []string{"aspmx.l.google.com", "alt1.aspmx.l.google.com", "alt2.aspmx.l.google.com"}
}
