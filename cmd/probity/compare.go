package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"probity/internal/console"
	"probity/internal/foreign"
)

// compareCmd shows another verifier's results next to ours.
type compareCmd struct {
	Ours         string            `arg:"" type:"existingfile" help:"A result of this program, in CSV; with details it has the evidence." placeholder:"OURS.csv"`
	Theirs       string            `arg:"" type:"existingfile" help:"The other verifier's result, in CSV." placeholder:"THEIRS.csv"`
	EmailColumn  string            `help:"The column with the addresses in the other file." default:"email" placeholder:"NAME"`
	StatusColumn string            `help:"The column with its statuses." default:"status" placeholder:"NAME"`
	Map          map[string]string `help:"What its words stand for: deliverable=VALID,undeliverable=INVALID. VALID, RISKY, INVALID and UNKNOWN are known, without case." mapsep:"," placeholder:"WORD=STATUS"`
	OursColumn   string            `help:"The column with the addresses in our file." default:"email" placeholder:"NAME"`
	Examples     int               `help:"How many addresses to show of each disagreement." default:"3"`
	JSON         bool              `name:"json" help:"One JSON object."`
}

// Run prints the disagreements by receiver.
func (c compareCmd) Run(con *console.IO) error {
	theirs, err := readForeign(c.Theirs, c.EmailColumn, c.StatusColumn, c.Map)
	if err != nil {
		return err
	}
	f, err := os.Open(c.Ours)
	if err != nil {
		return err
	}
	defer f.Close()
	found, err := foreign.Compare(f, c.OursColumn, theirs, c.Examples)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Ours, err)
	}
	if c.JSON {
		return json.NewEncoder(con.Out).Encode(found)
	}
	return printComparison(con.Out, found)
}

func printComparison(out io.Writer, c *foreign.Comparison) error {
	fmt.Fprintf(out, "addresses in both files: %d, of which %d agree; only in ours: %d, only in theirs: %d\n\n",
		c.Both, c.Agree, c.OnlyOurs, c.OnlyTheirs)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RECEIVER\tBOTH\tAGREE\tOURS\tTHEIRS\tADDRESSES\tOUR EVIDENCE")
	for _, r := range c.Receivers {
		fmt.Fprintf(table, "%s\t%d\t%d\t\t\t\t\n", console.Printable(r.Receiver), r.Both, r.Agree)
		for _, d := range r.Disagreements {
			fmt.Fprintf(table, "\t\t\t%s\t%s\t%d\t\n", console.Printable(d.Ours), d.Theirs, d.Addresses)
			for _, e := range d.Examples {
				fmt.Fprintf(table, "\t\t\t\t\t\t%s\n", console.Printable(evidenceWords(e)))
			}
		}
	}
	return table.Flush()
}

// evidenceWords returns what our result of an address rests on, on one line.
func evidenceWords(e foreign.Evidence) string {
	words := []string{e.Email + ":"}
	for _, one := range []string{e.Reason, "score " + e.Score, e.Host, e.Code, e.Message} {
		if one != "" {
			words = append(words, one)
		}
	}
	if e.Control != "" {
		words = append(words, "(control: "+e.Control+")")
	}
	return strings.Join(words, " ")
}
