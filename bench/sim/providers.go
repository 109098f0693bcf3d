package sim

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"probity/bench/sim/persona"
)

// rates are the hourly and per-minute budgets of a careful prober, in real time.
// Nothing else in a provider table depends on the speed-up.
type rates struct {
	connectionsPerMinute, rcptsPerMinute, refusalsPerHour int
}

// Budgets per source address, as in the shipped provider table. defaultRates are
// for unknown routes.
var (
	defaultRates  = rates{10, 60, 20}
	providerRates = map[string]rates{
		"google":       {30, 300, 200},
		"microsoft365": {30, 300, 200},
		"outlook":      {5, 10, 20},
		"yahoo":        {10, 60, 20},
		"icloud":       {15, 60, 50},
		"mimecast":     {10, 60, 30},
		"proofpoint":   {10, 60, 30},
		"barracuda":    {10, 60, 30},
		"cisco":        {10, 60, 20},
		"gmx":          {12, 60, 20},
		"qq":           {6, 30, 20},
		"netease":      {6, 30, 20},
		"zoho":         {6, 30, 20},
		"mailru":       {6, 30, 20},
		"orange":       {6, 30, 20},
		"laposte":      {6, 30, 20},
		"tonline":      {5, 20, 20},
		"godaddy":      {6, 30, 20},
		"docomo":       {4, 20, 20},
		"comcast":      {20, 60, 30},
	}
)

// maxBudget is the highest budget that a provider table accepts.
const maxBudget = 1_000_000

// retrySchedule is the delay of each retry of a deferred address after the
// attempt before.
var retrySchedule = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// WriteProviders writes the TOML override file for a simulated internet of that
// speed-up, with scaled pauses, retry schedule, per-minute and per-hour budgets.
// With 0 there are no pauses and no budgets, except those that receivers enforce
// at any speed.
func WriteProviders(out io.Writer, speedup float64) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Budgets for the pretend internet at speed-up %g. Not for the real one.\n", speedup)
	fmt.Fprintf(&b, "speedup = %s\n", strconv.FormatFloat(max(speedup, 0), 'f', -1, 64))
	fmt.Fprintf(&b, "retry_schedule = [%s]\n\n[defaults.limits]\n", schedule(speedup))
	writeLimits(&b, "", speedup)
	for _, id := range providerIDs() {
		fmt.Fprintf(&b, "\n[[provider]]\nid = %q\n[provider.limits]\n", id)
		writeLimits(&b, id, speedup)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// providerIDs lists the providers that have personas, in the order of Personas.
func providerIDs() []string {
	var ids []string
	seen := map[string]bool{"": true}
	for _, p := range persona.All() {
		if !seen[p.Provider] {
			ids = append(ids, p.Provider)
		}
		seen[p.Provider] = true
	}
	return ids
}

func schedule(speedup float64) string {
	var quoted []string
	for _, wait := range retrySchedule {
		scaled := time.Millisecond
		if speedup > 0 {
			scaled = max(time.Duration(float64(wait)/speedup), time.Millisecond)
		}
		quoted = append(quoted, fmt.Sprintf("%q", scaled))
	}
	return strings.Join(quoted, ", ")
}

func writeLimits(b *strings.Builder, id string, speedup float64) {
	if speedup <= 0 {
		writeNoLimits(b, id)
		return
	}
	r, known := providerRates[id]
	if !known {
		r = defaultRates
	}
	fmt.Fprintf(b, "connections_per_minute = %d\n", scaleDown(r.connectionsPerMinute, speedup))
	fmt.Fprintf(b, "recipients_per_minute = %d\n", scaleDown(r.rcptsPerMinute, speedup))
	fmt.Fprintf(b, "refusals_per_hour = %d\n", scaleDown(r.refusalsPerHour, speedup))
}

// scaleDown rounds down, so that a budget never exceeds the receiver's limit.
func scaleDown(limit int, speedup float64) int {
	return int(min(max(float64(limit)*speedup, 1), maxBudget))
}

// writeNoLimits removes every budget but one: Outlook.com answers a second
// recipient of a transaction with 452 4.5.3 at any speed.
func writeNoLimits(b *strings.Builder, id string) {
	for _, key := range []string{"connections", "connections_per_minute", "recipients_per_minute",
		"recipients_per_transaction",
		"recipients_per_connection", "transactions_per_connection", "refusals_per_connection", "refusals_per_hour"} {
		limit := 0
		if id == "outlook" && key == "recipients_per_transaction" {
			limit = 1
		}
		fmt.Fprintf(b, "%s = %d\n", key, limit)
	}
}
