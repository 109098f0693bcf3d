package dns

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

// A query has the name, the recursion flag and our EDNS0 size.
func TestQueryIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63}){0,3}`).Filter(validName).Draw(t, "name")
		id := rapid.Uint16().Draw(t, "id")
		with := edns(rapid.Bool().Draw(t, "edns"))
		var m dns.Msg
		if err := m.Unpack(newQueryPacker().append(nil, id, question{name, typeMX}, with)); err != nil {
			t.Fatal(err)
		}
		if m.Id != id || m.Response || !m.RecursionDesired || len(m.Question) != 1 ||
			m.Question[0] != (dns.Question{Name: name + ".", Qtype: dns.TypeMX, Qclass: dns.ClassINET}) {
			t.Fatal(m.String())
		}
		if opt := m.IsEdns0(); bool(with) != (opt != nil) || bool(with) && (opt.UDPSize() != udpSize || opt.Do()) {
			t.Fatal(m.String())
		}
	})
}

func seeds() [][]byte {
	z := parseZone(examples)
	var out [][]byte
	for _, name := range []string{"plain", "null", "alias", "loop1", "self", "escaped", "absent", "nothing", "lame",
		"refused", "both", "c0"} {
		for _, kind := range []uint16{dns.TypeMX, dns.TypeA} {
			q := new(dns.Msg).SetQuestion(name+".example.", kind)
			q.Id = 0
			out = append(out, z.handle(q, true))
		}
	}
	return out
}

// FuzzParse: any bytes give an answer within the bounds, whose host names are host names.
func FuzzParse(f *testing.F) {
	for _, msg := range seeds() {
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		q, ok := questionOf(msg)
		if !ok {
			return
		}
		var r reply
		if !r.read(msg) || !r.answers(q) {
			return
		}
		a := r.parse(q)
		if len(a.mx) > maxMX || len(a.addrs) > maxAddrs || a.outcome > nxDomain {
			t.Fatalf("%+v", a)
		}
		if a.outcome != found && (len(a.mx) > 0 || len(a.addrs) > 0 || a.alias != "") {
			t.Fatalf("not found, yet %+v", a)
		}
		for _, m := range a.mx {
			if m.Host != "." && !validName(m.Host) {
				t.Fatalf("%q", m.Host)
			}
		}
		if a.alias != "" && !validName(a.alias) {
			t.Fatalf("%q", a.alias)
		}
	})
}

// questionOf reads the question of a message by itself.
func questionOf(msg []byte) (question, bool) {
	if len(msg) < headerLen {
		return question{}, false
	}
	name, off, err := dns.UnpackDomainName(msg, headerLen)
	if err != nil || off+2 > len(msg) {
		return question{}, false
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return question{name, uint16(msg[off])<<8 | uint16(msg[off+1])}, validName(name)
}

func BenchmarkParse(b *testing.B) {
	q := new(dns.Msg).SetQuestion("plain.example.", dns.TypeMX)
	msg := parseZone(examples).handle(q, false)
	var r reply
	b.ReportAllocs()
	for b.Loop() {
		if !r.read(msg) || r.parse(question{"plain.example", typeMX}).outcome != found {
			b.Fatal("not read")
		}
	}
}
