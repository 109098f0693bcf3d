package providerview

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"probity/engine"
	"probity/prober/doctor"
)

// Print writes tables for people, in detail for one provider.
func (v View) Print(w io.Writer, detail bool) error {
	if detail {
		for _, p := range v.Providers {
			printProvider(w, p)
		}
	}
	if len(v.Providers) == 0 && len(v.Rules) > 1 || !detail {
		fmt.Fprintf(w, "retries after %s; table %s\n\n", strings.Join(v.RetrySchedule, ", "), v.Hash)
	}
	if !detail {
		if err := v.printLimits(w); err != nil {
			return err
		}
	}
	if detail {
		return v.printFullRules(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tMEANING\tBLAME\tACTION\tDATE\tWHEN\tSOURCE")
	for _, p := range v.Providers {
		printRules(t, p.Rules)
	}
	printRules(t, v.Rules)
	return t.Flush()
}

// printFullRules writes each rule with all of its conditions, in the order in which rules are tried.
func (v View) printFullRules(w io.Writer) error {
	rules := v.Rules
	for _, p := range v.Providers {
		rules = append(p.Rules, rules...)
	}
	for _, r := range rules {
		fmt.Fprintf(w, "%s\n  means   %s, blame %s, action %s\n", r.ID, r.Meaning, r.Blame, r.actionText())
		for _, c := range r.conditions() {
			fmt.Fprintf(w, "  when    %s\n", c)
		}
		if _, err := fmt.Fprintf(w, "  source  %s, %s\n", r.Source, r.Date); err != nil {
			return err
		}
	}
	return nil
}

// conditions returns one line for each condition.
func (r ruleView) conditions() (lines []string) {
	for _, c := range []struct {
		name  string
		words []string
	}{{"stage", r.Stage}, {"code", r.Code}, {"enhanced", r.Enhanced}, {"text", r.Text}} {
		if len(c.words) > 0 {
			lines = append(lines, c.name+" "+strings.Join(c.words, ", "))
		}
	}
	if r.Pattern != "" {
		lines = append(lines, "text matches "+r.Pattern)
	}
	return lines
}

func (r ruleView) actionText() string { return strings.TrimSpace(r.Action + " " + r.For) }

// maxConditionLen is how many characters of the conditions the table of all rules shows.
const maxConditionLen = 40

// shortConditions is the beginning of the conditions; "providers show ID" shows them all.
func (r ruleView) shortConditions() string {
	all := []rune(strings.Join(r.conditions(), "; "))
	if len(all) > maxConditionLen {
		return string(all[:maxConditionLen-1]) + "…"
	}
	return string(all)
}

// printLimits writes one line for each provider.
func (v View) printLimits(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROVIDER\tPROBE\tKIND\tACCEPT-ALL\tCONNECTIONS\tCONN/MIN\tRCPT/MIN\tRCPT/TRANS\tRCPT/CONN\tTRANS/CONN\tREFUSED/CONN\tREFUSED/H\tDATE\tSOURCE")
	fmt.Fprintf(t, "(unknown)\ton\tnarrow\t-\t%s\t\t\n", limitCells(v.defaults))
	for _, p := range v.Providers {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.ID, onOff(p.Probe), p.Kind, yesOrDash(p.AcceptAll),
			limitCells(p.limits), p.Date, p.Source)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

func limitCells(l engine.Limits) string {
	var cells []string
	for _, n := range doctor.NamedLimits(l) {
		cells = append(cells, limitCell(n.Value))
	}
	return strings.Join(cells, "\t")
}

func limitCell(n int) string {
	if n == 0 {
		return "no limit"
	}
	return strconv.Itoa(n)
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func yesOrDash(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}

// printProvider writes the facts of one provider without its rules.
func printProvider(w io.Writer, p providerView) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	line("id", p.ID)
	line("name", p.Name)
	line("mx", strings.Join(p.MX, " "))
	line("aliases", strings.Join(p.Aliases, " "))
	line("probe", onOff(p.Probe))
	line("kind", p.Kind)
	if p.FleetSources > 0 {
		line("fleet sources", strconv.Itoa(p.FleetSources))
	}
	line("by address", strings.Join(p.ByAddress, " "))
	line("accept-all", yesOrDash(p.AcceptAll))
	line("parking", yesOrDash(p.Parking))
	line("one domain per transaction", yesOrDash(p.OneDomain))
	line("accepts silently", yesOrDash(p.Silently))
	line("tls", p.TLS)
	for _, n := range doctor.NamedLimits(p.limits) {
		line(strings.ReplaceAll(n.Key, "_", " "), limitCell(n.Value))
	}
	if m := p.Mailbox; m != nil {
		line("mailbox rule", fmt.Sprintf("%d to %d of a-z 0-9 %s at %s (%s, %s)", m.Min, m.Max, m.Allowed,
			strings.Join(m.Domains, " "), m.Source, m.Date))
	}
	line("terms", p.Terms)
	line("terms forbid to verify", yesOrDash(p.TermsForbid))
	line("terms source", p.TermsSource)
	line("source", p.Source)
	line("date", p.Date)
	fmt.Fprintln(t)
	_ = t.Flush() // if the writer fails, so does the table that follows
}

func printRules(w io.Writer, rules []ruleView) {
	for _, r := range rules {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Meaning, r.Blame, r.actionText(), r.Date,
			r.shortConditions(), r.Source)
	}
}
