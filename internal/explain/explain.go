package explain

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/net/idna"

	"probity/engine"
	"probity/engine/charset"
	"probity/engine/lists"
	"probity/engine/replyline"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/providerview"
	"probity/prober/source"
)

// Command explains an address, a reply or a route.
type Command struct {
	Address addressCmd `cmd:"" help:"What an address is: lines from arguments or standard input, raw or JSON strings, to JSON lines."`
	Reply   replyCmd   `cmd:"" help:"What a reply means: TSV lines 'stage provider reply-text' from standard input to JSON lines."`
	Route   routeCmd   `cmd:"" help:"Where the mail of a domain goes, and the limits we apply."`
}

// maxLine bounds one line of input; an address may be 254 octets, a reply 100 lines.
const maxLine = 1 << 20

// eachLine calls do with each argument, or with each line of in when there are none.
func eachLine(args []string, in io.Reader, do func(string) error) error {
	for _, a := range args {
		if err := do(a); err != nil {
			return err
		}
	}
	if len(args) > 0 {
		return nil
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() && lines.Err() == nil { // with an error, the line may be cut off
		if err := do(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

type addressCmd struct {
	nodeflags.ListChanges
	Lines []string `arg:"" optional:"" help:"Addresses, raw or as JSON strings; standard input when none is given."`
}

// addressFacts is one JSON line of explain address.
type addressFacts struct {
	Input        string  `json:"input"`
	Trimmed      bool    `json:"trimmed"` // white space around it is removed before it is judged
	Valid        bool    `json:"valid"`
	Normalized   string  `json:"normalized"`
	Local        string  `json:"local"`
	Domain       string  `json:"domain"`
	ASCIIDomain  string  `json:"ascii_domain"`
	Error        *string `json:"error"`
	IsRole       bool    `json:"is_role_based"`
	IsDisposable bool    `json:"is_disposable"`
	IsFree       bool    `json:"is_free_email"`
	IsAlias      bool    `json:"is_alias"`
	DidYouMean   *string `json:"did_you_mean"`
}

// Run writes one JSON line for each line of input.
func (c addressCmd) Run(con *console.IO) error {
	set, err := c.LoadLists()
	if err != nil {
		return err
	}
	for _, warning := range set.Warnings() {
		fmt.Fprintln(con.Err, "warning: --lists:", warning)
	}
	out := console.NewLineWriter(con.Out)
	n := 0
	err = eachLine(c.Lines, con.In, func(line string) error {
		n++
		return out.Encode(explainAddress(set, line))
	})
	if n == 0 && err == nil {
		fmt.Fprintln(con.Err, "nothing was read: give addresses as arguments, or one a line on standard input")
	}
	return errors.Join(err, out.Flush())
}

func explainAddress(set *lists.Set, line string) addressFacts {
	facts := addressFacts{Input: unquoteJSON(line)}
	text := engine.Trim(facts.Input)
	facts.Trimmed = text != facts.Input
	addr, err := engine.Parse(text)
	if err != nil {
		words := err.Error()
		facts.Error = &words
		if guess, ok := engine.Guess(text); ok {
			facts.DidYouMean = &guess
		}
		return facts
	}
	flags := set.Flags(addr)
	facts.Valid = true
	facts.Normalized = addr.Folded()
	facts.Local = addr.Local()
	facts.ASCIIDomain = addr.Domain()
	if facts.Domain, err = idna.ToUnicode(addr.Domain()); err != nil {
		facts.Domain = addr.Domain()
	}
	facts.IsRole, facts.IsDisposable = flags.Has(engine.FlagRole), flags.Has(engine.FlagDisposable)
	facts.IsFree, facts.IsAlias = flags.Has(engine.FlagFree), flags.Has(engine.FlagAlias)
	if s := set.Suggest(addr); s != "" {
		facts.DidYouMean = &s
	}
	return facts
}

// unquoteJSON decodes a line that is a JSON string, and returns any other unchanged.
func unquoteJSON(line string) string {
	var s string
	if strings.HasPrefix(line, `"`) && json.Unmarshal([]byte(line), &s) == nil {
		return s
	}
	return strings.TrimSuffix(line, "\r")
}

type replyCmd struct {
	Table     bool   `help:"Print which status and reason each meaning leads to."`
	Providers string `help:"Overrides of the provider table, TOML." type:"existingfile" placeholder:"FILE"`
	MailFrom  string `help:"The reverse-path that the reply answered: a reply that quotes it speaks of the sender." placeholder:"ADDRESS"`
	Egress    string `help:"The identity that it answered: a reply that quotes its name or address speaks of the sender." placeholder:"LOCAL[/PUBLIC]=NAME"`
}

// replyFacts is one JSON line of explain reply.
type replyFacts struct {
	Meaning string  `json:"meaning"`
	Blame   string  `json:"blame"`
	Status  string  `json:"status"`
	Reason  *string `json:"reason"`
	Rule    string  `json:"rule"`
	Action  string  `json:"action"`

	scoreRange string // of the scores of the reason
}

// maxBadLines is how many bad lines are reported one by one.
const maxBadLines = 20

// Run judges each line as the only reply seen at its stage. It reports bad lines by number, and fails at the end if
// there were any.
func (c replyCmd) Run(con *console.IO) error {
	if c.Table {
		return printMeanings(con)
	}
	flags := nodeflags.Probing{Providers: c.Providers}
	table, err := flags.Table()
	if err != nil {
		return err
	}
	senderIdentity, err := c.senderIdentity()
	if err != nil {
		return err
	}
	out := console.NewLineWriter(con.Out)
	n, bad, unknown := 0, 0, map[string]bool{}
	err = eachLine(nil, con.In, func(line string) error {
		n++
		line = strings.TrimSuffix(line, "\r")
		facts, err := explainReply(table, senderIdentity, line)
		if err != nil {
			bad++
			if bad <= maxBadLines {
				fmt.Fprintf(con.Err, "line %d: %v\n", n, err)
			}
			return nil
		}
		if who := unknownProvider(table, line); who != "" && len(unknown) < maxBadLines && !unknown[who] {
			unknown[who] = true
			fmt.Fprintf(con.Err, "line %d: no provider is known as %.40q: judged by the rules for all providers\n", n,
				who)
		}
		return out.Encode(facts)
	})
	if n == 0 && err == nil {
		fmt.Fprintln(con.Err, "nothing was read: give lines 'stage<TAB>provider<TAB>reply-text' on standard input; --table needs none")
	}
	if err == nil && bad > 0 {
		err = fmt.Errorf("%w: %s of %d cannot be read", console.ErrUsage, console.Counted(bad, "line"), n)
	}
	return errors.Join(err, out.Flush())
}

// senderIdentity is the sender that got the reply, as far as the flags say.
func (c *replyCmd) senderIdentity() (engine.SenderIdentity, error) {
	if c.MailFrom != "" {
		if _, err := engine.Parse(c.MailFrom); err != nil {
			return engine.SenderIdentity{}, fmt.Errorf("%w: --mail-from %q: %v", console.ErrUsage, c.MailFrom, err)
		}
	}
	var id source.Identity
	if c.Egress != "" {
		var err error
		if id, err = nodeflags.Egress(c.Egress).Parse(); err != nil {
			return engine.SenderIdentity{}, err
		}
	}
	return id.SenderIdentity(c.MailFrom), nil
}

// unknownProvider returns a line's provider if the table does not know it and it is not a host name: many hosts have no
// provider.
func unknownProvider(table *engine.Table, line string) string {
	_, rest, _ := strings.Cut(line, "\t")
	who, _, _ := strings.Cut(rest, "\t")
	if who == "" || strings.Contains(who, ".") || table.ProviderOfHint(who) != table.Unknown {
		return ""
	}
	return who
}

func explainReply(table *engine.Table, senderIdentity engine.SenderIdentity, line string) (replyFacts, error) {
	fields := strings.SplitN(line, "\t", 3)
	if len(fields) != 3 {
		return replyFacts{}, fmt.Errorf("%.80q is not 'stage<TAB>provider<TAB>reply-text'; leave the provider empty if it is not known", line)
	}
	stage, ok := engine.StageNamed(fields[0])
	if !ok {
		return replyFacts{}, fmt.Errorf("stage %.40q; use one of %s", fields[0],
			strings.Join(engine.StageNames(), ", "))
	}
	provider := table.ProviderOfHint(fields[1])
	if provider == table.Unknown && len(fields[1]) > 3 {
		if near := providerview.Suggest(table, fields[1], 1); len(near) > 0 {
			return replyFacts{}, fmt.Errorf("no provider is known as %.40q%s", fields[1], providerview.DidYouMean(near))
		}
	}
	finding := engine.Finding{Meaning: engine.ProtocolFault, Blame: engine.BlameSite, Rule: "generic/not-a-reply"}
	reply, err := engine.ParseReply(stage, replyline.Escape(strings.ReplaceAll(fields[2], `\n`, "\n")))
	if err == nil {
		reply, finding = charset.Read(table, provider, reply, senderIdentity)
	}
	return judgeReply(provider, reply, stage, finding), nil
}

// judgeReply is the verdict from one reply alone.
func judgeReply(provider *engine.Provider, reply engine.Reply, stage engine.Stage, f engine.Finding) replyFacts {
	about := engine.SubjectSession
	if stage == engine.StageRcpt {
		about = engine.SubjectTarget
	}
	reply.Stage = stage
	asked := *provider
	asked.AcceptAll, asked.Probe = false, true
	ev := engine.Evidence{Route: &engine.Route{Fact: engine.FactMX, Hosts: []string{"mx"}, Provider: &asked}}
	ev.Append(engine.Sighting{Subject: about, Host: "mx", Reply: reply, Finding: f})
	v := engine.Judge(&ev, engine.Policy{}, time.Time{})
	facts := replyFacts{Meaning: f.Meaning.String(), Blame: f.Blame.String(), Status: v.Status.String(), Rule: f.Rule,
		Action: f.Action.Kind.String()}
	if reason := v.Reason.String(); reason != "" {
		facts.Reason = &reason
	}
	band := v.Reason.Band()
	facts.scoreRange = fmt.Sprintf("%d to %d", band.Low, band.High)
	return facts
}

// printMeanings judges each meaning as a permanent refusal, or as an acceptance, of a recipient.
func printMeanings(con *console.IO) error {
	w := tabwriter.NewWriter(con.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "meaning\tcode\tstatus\treason\tscore")
	for _, row := range []struct {
		m    engine.Meaning
		code int
	}{{engine.Accepted, 250}, {engine.NoMailbox, 550}, {engine.MailboxFull, 552}, {engine.MailboxDisabled, 550},
		{engine.Greylisted, 451},
		{engine.RateLimited, 450}, {engine.Blocked, 554}, {engine.SenderRefused, 550}, {engine.PolicyRefused, 550},
		{engine.RelayDenied, 554},
		{engine.Temporary, 451}, {engine.SyntaxRefused, 501}, {engine.ProtocolFault, 503},
		{engine.MeaningUnknown, 550}} {
		f := engine.Finding{Meaning: row.m, Blame: engine.BlameRecipient}
		facts := judgeReply(&engine.Provider{}, engine.Reply{Stage: engine.StageRcpt, Code: row.code}, engine.StageRcpt,
			f)
		reason := "null"
		if facts.Reason != nil {
			reason = *facts.Reason
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", row.m, row.code, facts.Status, reason, facts.scoreRange)
	}
	return w.Flush()
}
