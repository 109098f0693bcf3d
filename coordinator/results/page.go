package results

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"probity/coordinator/csvfile"
	"probity/coordinator/details"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/engine/outcome"
	"probity/internal/jsontext"
	"probity/prober/wire/press"
)

// columns are the names of the columns that are appended to the input.
var columns = [...]string{"verify_status", "verify_score", "verify_reason", "verify_syntax_valid",
	"verify_domain_exists", "verify_smtp_valid",
	"verify_is_disposable", "verify_is_role_based", "verify_is_free_email", "verify_smtp_provider", "verify_mx_records",
	"verify_did_you_mean",
	"verify_from_cache", "verify_verified_at"}

// page is one frame that is rendered for the result; its memory is reused.
type page struct {
	a          *Assembly
	index      int
	fr         jobfiles.FrameReader
	names      nameReader
	compressor compressor
	text       []byte
	packed     []byte
	mail       []byte   // e-mail cell of the current row; part of its block
	hosts      []string // of the current row
	total      Totals
	tally      tally
	cells      cells
	found      []foundRow // of a search
	hasText    bool       // that it searches for
}

func (p *page) clearForReuse() bool {
	*p = page{fr: p.fr, text: p.text}
	return p.fr.Small() && cap(p.text) <= 2*csvfile.MaxPooledBytes
}

// rowTextBytes estimates the bytes that are appended to a row.
const rowTextBytes = 160

type answer struct {
	v                        engine.Verdict
	provider, mx, suggestion nameCell
	credits                  int64
	scored                   time.Time        // when its score was made
	details                  *details.Details // nil unless the job has them
}

// render renders and compresses the page, and counts its rows.
func (p *page) render() error {
	a, b := p.a, &p.fr.Block
	p.total, p.text, p.packed = Totals{}, p.text[:0], nil
	p.found = p.found[:0]
	p.tally.clear()
	p.names.f, p.names.dialect = a.savedAnswers, &a.dialect
	p.cells.delimiter = a.dialect.Delimiter
	if err := p.fr.Read(a.upload, &a.dialect, p.index); err != nil {
		return err
	}
	p.text = slices.Grow(p.text, len(b.Buf)+rowTextBytes*len(b.Rows))
	for i := range b.Rows {
		press.Yield(i)
		n := b.First + uint32(i)
		if a.find != nil && len(p.found) == a.find.limit {
			break
		}
		if n+1 < a.filter.From || (a.filter.Row > 0 && n+1 != a.filter.Row) {
			continue
		}
		if a.find != nil && (b.Rows[i].Blank || !a.find.matches(b.Email(i))) {
			continue
		}
		start := len(p.text)
		var t shownVerdict
		var err error
		if !b.Rows[i].Blank {
			t, err = a.verdict(&a.window.records[n-a.window.start])
		}
		if err != nil {
			return err
		}
		if !t.present {
			p.writeBlank(i, n)
			p.keepFound(n, start)
			continue
		}
		ans := answer{v: t.Verdict}
		if ans.provider, err = p.names.lookup(t.refs[jobfiles.NameProvider]); err == nil {
			ans.mx, err = p.names.lookup(t.refs[jobfiles.NameMX])
		}
		if err == nil {
			ans.suggestion, err = p.names.lookup(t.refs[jobfiles.NameSuggestion])
		}
		if err != nil {
			return err
		}
		p.mail = b.Email(i)
		first := a.window.firstOf[n-a.window.start] == 0
		if !first || t.refs == (jobfiles.Refs{}) {
			p.applyRowFacts(&ans)
		}
		if t.refs == (jobfiles.Refs{}) { // a verdict made for this file, scored without the row's flags
			ans.v.Score = engine.Score(&ans.v, ans.v.VerifiedAt)
		}
		if a.job.Details {
			if err := p.addDetails(&ans, &t); err != nil {
				return err
			}
		}
		p.total.status[ans.v.Status]++
		p.total.reason[ans.v.Reason]++
		p.tally.add(int64(n)+1, t.refs[jobfiles.NameProvider], ans.provider.text, ans.v.Status, ans.v.Score)
		if first && !a.job.Test {
			ans.credits = Cost(ans.v.Status)
			p.total.Charged += ans.credits
		}
		switch {
		case len(a.filter.Status) > 0 && !slices.Contains(a.filter.Status, t.Status):
		case len(a.filter.Reasons) > 0 && !slices.Contains(a.filter.Reasons, ans.v.Reason):
		case a.filter.Format == JSONL:
			p.writeJSON(i, n, &ans)
		default:
			p.text = a.dialect.AppendInputCells(p.text, b, i)
			if !a.filter.InputOnly {
				p.text = p.cells.append(p.text, &ans)
				if ans.details != nil {
					for _, cell := range ans.details.Cells() {
						p.text = a.dialect.AppendCell(append(p.text, a.dialect.Delimiter), cell)
					}
				}
			}
			p.text = a.dialect.AppendLineEnd(p.text, b, i)
		}
		p.keepFound(n, start)
	}
	if len(p.text) == 0 || a.find != nil {
		return nil
	}
	p.compressor.method, p.compressor.zstd = a.filter.Compress, a.r.cfg.Encoder
	packed, err := p.compressor.compress(p.text)
	p.packed = packed
	return err
}

// keepFound keeps row n of a search if its object was written, from start on.
func (p *page) keepFound(n uint32, start int) {
	if p.a.find != nil && len(p.text) > start {
		p.found = append(p.found, foundRow{n + 1, len(p.text)})
	}
}

// applyRowFacts sets flags and suggestion from the row's own text: a duplicate may be spelled differently.
func (p *page) applyRowFacts(ans *answer) {
	text := string(p.mail)
	addr, err := engine.ParseTrimmed(text)
	if err != nil {
		return
	}
	ans.v.Flags = p.a.r.cfg.Flags(addr)
	if p.a.job.Test && p.a.r.cfg.TestVerdict != nil {
		testVerdict := p.a.r.cfg.TestVerdict(addr)
		ans.v.Flags |= testVerdict.Flags
	}
	if ans.suggestion.text != "" {
		ans.suggestion = p.names.newNameCell(p.a.r.cfg.Suggest(addr))
	}
}

// addDetails adds the details of an answer. They are about the verdict as it was scored: that of the first of equal
// addresses.
func (p *page) addDetails(ans *answer, t *shownVerdict) error {
	v := t.Verdict
	if t.refs == (jobfiles.Refs{}) { // made for this file
		v = ans.v
	}
	d := &details.Details{Verdict: &v, Took: -1, DidYouMean: ans.suggestion.text, Table: p.a.r.cfg.Table()}
	ans.details, ans.scored = d, v.VerifiedAt
	if addr, err := engine.ParseTrimmed(string(p.mail)); err == nil {
		d.Normalized = addr.Folded()
	}
	if of := p.a.r.cfg.Probability; of != nil && !p.a.job.Test {
		if chance, n, known := of(p.a.job.Account,
			outcome.BinOf(ans.provider.text, v.Status, v.Reason, ans.v.Score)); known {
			d.Chance = details.Chance{Value: chance, N: n}
		}
	}
	rule, err := p.names.lookup(t.refs[jobfiles.NameRule])
	if err != nil {
		return err
	}
	if rule.text != "" {
		v.Rule = rule.text
	}
	packed, err := p.names.TextOf(jobfiles.NameDetails, t.refs[jobfiles.NameDetails])
	if err != nil || packed == "" { // an erasure, or a verdict made for this file
		return err
	}
	d.Node, ans.scored, err = details.Unpack([]byte(packed), &v)
	if err != nil {
		return fmt.Errorf("details of a row: %w: %w", jobfiles.ErrDamaged, err)
	}
	return nil
}

// writeBlank writes a row without an answer.
func (p *page) writeBlank(i int, n uint32) {
	if len(p.a.filter.Status) > 0 || len(p.a.filter.Reasons) > 0 {
		return
	}
	if p.a.filter.Format == CSV {
		var none [len(columns) + len(details.Columns)]string
		ours := len(columns)
		if p.a.job.Details {
			ours = len(none)
		}
		p.text = p.a.dialect.AppendRow(p.text, &p.fr.Block, i, none[:ours])
		return
	}
	p.mail = p.fr.Block.Email(i)
	p.text = strconv.AppendUint(append(p.text, `{"row":`...), uint64(n)+1, 10)
	p.text = jsontext.AppendString(append(p.text, `,"email":`...), string(p.mail))
	p.text = append(p.text, `,"status":null,"score":null,"reason":null,"syntax_valid":null,"domain_exists":null,"smtp_valid":null,`+
		`"is_disposable":null,"is_role_based":null,"is_free_email":null,"smtp_provider":"","mx_records":[],"from_cache":null,`+
		`"credits_used":0,"verified_at":null`...)
	if p.a.job.Details {
		p.text = append(p.text, `,"details":null`...)
	}
	p.endJSON(i)
}

func (p *page) writeJSON(i int, n uint32, ans *answer) {
	b := strconv.AppendUint(append(p.text, `{"row":`...), uint64(n)+1, 10)
	p.hosts = p.hosts[:0] // the next row uses it again
	for host := range strings.FieldsSeq(ans.mx.text) {
		p.hosts = append(p.hosts, host)
	}
	r := row{email: string(p.mail), verdict: &ans.v, score: ans.v.Score, provider: ans.provider.text, mx: p.hosts,
		credits: ans.credits}
	p.text = r.appendKeys(append(b, ','))
	if d := ans.details; d != nil {
		p.text = d.AppendJSON(append(p.text, `,"details":`...), ans.scored)
	}
	p.endJSON(i)
}

// endJSON ends the object of row i, with its input if wanted: all columns of the list except the address; missing cells
// of a short row are empty.
func (p *page) endJSON(i int) {
	if p.a.inputs == nil {
		p.text = append(p.text, '}', '\n')
		return
	}
	dst, inputs, next := append(p.text, `,"input":{`...), p.a.inputs, 0
	put := func(text string) {
		if inputs[next] != "" {
			dst = jsontext.AppendString(append(dst, inputs[next]...), text)
		}
		next++
	}
	p.a.dialect.EachCell(&p.fr.Block, i, func(text []byte) { put(string(text)) })
	for next < len(inputs) {
		put("")
	}
	p.text = append(dst, '}', '}', '\n')
}

// inputKeys returns for each column the JSON text before its value in input; empty for the column of the address.
func inputKeys(d *csvfile.Dialect, preamble []byte) []string {
	keys := d.ColumnNames(preamble)
	comma := ""
	for i, name := range keys {
		if i == d.Column {
			keys[i] = ""
			continue
		}
		keys[i] = comma + string(jsontext.AppendString(nil, name)) + ":"
		comma = ","
	}
	return keys
}
