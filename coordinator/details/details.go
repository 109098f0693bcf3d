package details

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"probity/engine"
	"probity/engine/basis"
	"probity/engine/detail"
	"probity/internal/jsontext"
)

// Details are of one answer.
type Details struct {
	Verdict    *engine.Verdict
	Normalized string // folded form of the address; empty for bad syntax
	DidYouMean string
	Node       string        // that probed; empty if none did
	Took       time.Duration // less than zero: not known, as for rows of a job
	Table      *engine.Table // has the sources of the rules
	Chance     Chance
}

// Chance is how probable it is that the address takes mail; not known if N is 0.
type Chance struct {
	Value float64 // 0 to 1
	N     int64   // outcomes that it rests on
}

// appendJSON appends two members.
func (c Chance) appendJSON(dst []byte) []byte {
	if c.N == 0 {
		return append(dst, `"probability":null,"probability_n":null`...)
	}
	dst = strconv.AppendFloat(append(dst, `"probability":`...), c.Value, 'f', 4, 64)
	return strconv.AppendInt(append(dst, `,"probability_n":`...), c.N, 10)
}

// AppendJSON appends the details as an object. The score is explained as of now.
func (d *Details) AppendJSON(dst []byte, now time.Time) []byte {
	v, of := d.Verdict, &d.Verdict.Details
	stage, wait := "", 0
	if of.Code != 0 { // else no reply decided
		stage = of.Stage.String()
	}
	if !of.NextRetry.IsZero() {
		wait = max(1, int(math.Ceil(of.NextRetry.Sub(now).Seconds())))
	}
	dst = jsontext.AppendStringOrNull(append(dst, `{"normalized_email":`...), d.Normalized)
	dst = jsontext.AppendStringOrNull(append(dst, `,"did_you_mean":`...), d.DidYouMean)
	dst = append(dst, `,"is_catch_all":`...)
	if of.CatchAll == engine.NotKnown {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendBool(dst, of.CatchAll == engine.Yes)
	}
	dst = appendTimeOrNull(append(dst, `,"catch_all_checked_at":`...), checkedAt(v))
	dst = strconv.AppendBool(append(dst, `,"mailbox_full":`...), of.Full)
	dst = strconv.AppendBool(append(dst, `,"mailbox_disabled":`...), of.Disabled)
	dst = appendReply(append(dst, ','), of.Host, of.Code, of.Enhanced, of.Message)
	dst = jsontext.AppendStringOrNull(append(dst, `,"stage":`...), stage)
	dst = jsontext.AppendStringOrNull(append(dst, `,"egress_source":`...), of.Source)
	dst = strconv.AppendInt(append(dst, `,"attempts":`...), int64(of.Attempts), 10)
	dst = append(dst, `,"duration_ms":`...)
	if d.Took < 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, d.Took.Milliseconds(), 10)
	}
	dst = jsontext.AppendNumberOrNull(append(dst, `,"retry_after":`...), wait)
	dst = jsontext.AppendStringOrNull(append(dst, `,"checked_by":`...), d.Node)
	dst = d.appendRule(append(dst, ','), v.Rule)
	dst = d.appendControl(append(dst, `,"control":`...))
	dst = append(dst, `,"score_parts":[`...)
	for i, p := range engine.ScoreParts(v, now) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(append(dst, `{"name":`...), p.Name)
		dst = append(strconv.AppendInt(append(dst, `,"points":`...), int64(p.Points), 10), '}')
	}
	dst = strconv.AppendBool(append(dst, `],"is_alias":`...), v.Flags.Has(engine.FlagAlias))
	return append(d.Chance.appendJSON(append(dst, ',')), '}')
}

// appendControl appends the reply to another recipient that the answer rests on.
func (d *Details) appendControl(dst []byte) []byte {
	w := d.Verdict.Details.Witness
	if w == nil {
		return append(dst, "null"...)
	}
	dst = jsontext.AppendString(append(dst, `{"kind":`...), Kind(d.Verdict))
	dst = appendReply(append(dst, ','), w.Host, w.Reply.Code, w.Reply.Enhanced, w.Message)
	dst = jsontext.AppendString(append(dst, `,"meaning":`...), w.Finding.Meaning.String())
	dst = d.appendRule(append(dst, ','), w.Finding.Rule)
	dst = jsontext.AppendTime(append(dst, `,"at":`...), w.At)
	dst = jsontext.AppendStringOrNull(append(dst, `,"egress_source":`...), w.Source)
	return append(dst, '}')
}

// KindMadeUp is the kind of a reply to the made-up recipient of the domain that controls nothing: it was accepted, or
// said nothing clear.
const KindMadeUp = "made_up_recipient"

// Kind says how a verdict's witness bears on it.
func Kind(v *engine.Verdict) string {
	if name := v.Basis.Control.String(); name != "" {
		return name
	}
	return KindMadeUp
}

// appendRule appends the id of a rule, and where the table has it from.
func (d *Details) appendRule(dst []byte, id string) []byte {
	source, date := "", ""
	if d.Table != nil {
		if r := d.Table.Rule(id); r != nil {
			source, date = r.Source, r.Date
		}
	}
	dst = jsontext.AppendStringOrNull(append(dst, `"rule":`...), id)
	dst = jsontext.AppendStringOrNull(append(dst, `,"rule_source":`...), source)
	return jsontext.AppendStringOrNull(append(dst, `,"rule_date":`...), date)
}

func appendReply(dst []byte, host string, code int, e engine.Enhanced, message string) []byte {
	dst = jsontext.AppendStringOrNull(append(dst, `"mx_host":`...), host)
	dst = jsontext.AppendNumberOrNull(append(dst, `,"smtp_code":`...), code)
	dst = jsontext.AppendStringOrNull(append(dst, `,"enhanced_code":`...), enhancedText(e))
	return jsontext.AppendStringOrNull(append(dst, `,"smtp_message":`...), message)
}

func appendTimeOrNull(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return jsontext.AppendTime(dst, t)
}

func enhancedText(e engine.Enhanced) string {
	if e.Class == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", e.Class, e.Subject, e.Detail)
}

// checkedAt returns the time at which the host was last asked about the domain's made-up recipient, to the minute; zero
// if that is not known.
func checkedAt(v *engine.Verdict) time.Time {
	age, known := v.Basis.CheckedFor(v.VerifiedAt, v.VerifiedAt)
	if !known {
		return time.Time{}
	}
	return v.VerifiedAt.Add(-time.Duration(age) * time.Millisecond)
}

// Columns are the names of the columns that a result file with details has in addition, in the order of Cells.
var Columns = [...]string{"verify_rule", "verify_smtp_code", "verify_enhanced_code", "verify_smtp_message",
	"verify_mx_host", "verify_attempts",
	"verify_checked_by", "verify_egress_source", "verify_control_kind", "verify_control_smtp_code",
	"verify_control_enhanced_code",
	"verify_control_smtp_message", "verify_control_mx_host", "verify_control_meaning", "verify_control_rule",
	"verify_control_at"}

// Cells are the cells of Columns. What is not known is empty.
func (d *Details) Cells() (cells [len(Columns)]string) {
	v, of := d.Verdict, &d.Verdict.Details
	copy(cells[:], []string{v.Rule, codeText(of.Code), enhancedText(of.Enhanced), of.Message, of.Host,
		strconv.Itoa(of.Attempts), d.Node, of.Source})
	if w := of.Witness; w != nil {
		copy(cells[8:], []string{Kind(v), codeText(w.Reply.Code), enhancedText(w.Reply.Enhanced), w.Message, w.Host,
			w.Finding.Meaning.String(),
			w.Finding.Rule, w.At.UTC().Format(time.RFC3339)})
	}
	return cells
}

func codeText(code int) string {
	if code == 0 {
		return ""
	}
	return strconv.Itoa(code)
}

// Pack appends what a job keeps of the details of a row: the basis of the score, how old the answer was in milliseconds
// when its score was made, the node, and the replies.
func Pack(dst []byte, v *engine.Verdict, node string, scored time.Time) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, basis.Size)...)
	v.Basis.Put(dst[at:])
	dst = binary.AppendVarint(dst, scored.UnixMilli()-v.VerifiedAt.UnixMilli())
	return detail.Append(detail.AppendString(dst, node), v)
}

// ErrMalformed is returned for bytes that Pack did not write.
var ErrMalformed = errors.New("not the details of a row")

// Unpack reads what Pack wrote into v, whose core is known.
func Unpack(packed []byte, v *engine.Verdict) (node string, scored time.Time, err error) {
	if len(packed) < basis.Size || !v.Basis.Read(packed) {
		return "", time.Time{}, ErrMalformed
	}
	r := detail.Reader{Src: packed[basis.Size:]}
	scored = time.UnixMilli(v.VerifiedAt.UnixMilli() + r.Varint()).UTC()
	node = r.String()
	if r.Bad || detail.Read(r.Src, v) != nil {
		return "", time.Time{}, ErrMalformed
	}
	return node, scored, nil
}
