package dns

import (
	"encoding/binary"
	"math"

	"github.com/miekg/dns"
)

// maxName is the longest name in text without its final dot (RFC 1035 section 2.3.4).
const maxName = 253

// wireName is a name read from a message: lower-case, without a final dot; the root is empty.
// It lives on the stack of its reader, so that names that are only compared cost no allocation.
type wireName struct {
	text [maxName]byte
	n    int
	host bool // made of letters, digits, hyphens and underscores only
}

func (w *wireName) bytes() []byte { return w.text[:w.n] }

func (w *wireName) is(name string) bool {
	return string(w.text[:w.n]) == name || w.n == 0 && name == "."
}

// isHost reports a name that can be a mail host, or the root.
func (w *wireName) isHost() bool { return w.host }

func (w *wireName) String() string {
	if w.n == 0 {
		return "."
	}
	return string(w.text[:w.n])
}

// nameAt reads the name at off and says where it ends. Pointers must go backwards, which bounds them (RFC 1035 section 4.1.4).
// A label with a dot of its own is kept apart by a backslash, so that it is never taken for two.
func nameAt(msg []byte, off int) (w wireName, end int, ok bool) {
	w.host = true
	limit := off
	for {
		if off >= len(msg) {
			return w, 0, false
		}
		c := int(msg[off])
		switch {
		case c == 0:
			return w, max(end, off+1), true
		case c >= 0xc0:
			if off+1 >= len(msg) {
				return w, 0, false
			}
			if end == 0 {
				end = off + 2
			}
			off = (c&0x3f)<<8 | int(msg[off+1])
			if off >= limit {
				return w, 0, false
			}
			limit = off
		case c > 63 || off+1+c > len(msg) || !w.add(msg[off+1:off+1+c]):
			return w, 0, false
		default:
			off += 1 + c
		}
	}
}

// add appends a label. Names over maxName are refused.
func (w *wireName) add(label []byte) bool {
	if w.n > 0 {
		if w.n >= maxName {
			return false
		}
		w.text[w.n] = '.'
		w.n++
	}
	for _, c := range label {
		if c == '.' || c == '\\' {
			if w.n >= maxName {
				return false
			}
			w.text[w.n] = '\\'
			w.n++
		}
		if w.n >= maxName {
			return false
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		w.host = w.host && hostByte(c)
		w.text[w.n] = c
		w.n++
	}
	return true
}

func hostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// validName reports a name that can be asked for: lower-case labels of 1 to 63 bytes, 253 in all.
func validName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	label := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.' && label > 0:
			label = 0
		case hostByte(c) && label < 63:
			label++
		default:
			return false
		}
	}
	return label > 0
}

// appendName appends a valid name in wire form.
func appendName(dst []byte, name string) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if name == "" { // the root
		return dst
	}
	for i := 0; i < len(name); i++ {
		if name[i] == '.' {
			dst[at] = byte(len(dst) - at - 1)
			at = len(dst)
		}
		dst = append(dst, name[i])
	}
	dst[at] = byte(len(dst) - at - 1)
	return append(dst, 0)
}

// The sections of a message that hold records.
const (
	sectionAnswer = iota
	sectionAuthority
)

// record is one resource record; its owner's name is at msg[owner], its data is msg[data:end].
type record struct {
	owner     int
	kind      uint16
	ttl       uint32
	data, end int
}

// records walks the answer and authority sections.
type records struct {
	record
	msg     []byte
	off     int
	left    [2]int
	section int
	bad     bool // the message ends too early or holds too much
}

// recordsOf starts a walk behind the question.
func recordsOf(msg []byte) records {
	rs := records{msg: msg, off: headerLen}
	rs.left = [2]int{int(binary.BigEndian.Uint16(msg[6:])), int(binary.BigEndian.Uint16(msg[8:]))}
	rs.bad = rs.left[0]+rs.left[1] > maxRecords
	if binary.BigEndian.Uint16(msg[4:]) == 1 && !rs.bad {
		end, ok := skipName(msg, rs.off)
		rs.off, rs.bad = end+4, !ok
	}
	return rs
}

// ownerIs reports whose record it is. Names are read only where somebody asks.
func (rs *records) ownerIs(name string) bool {
	owner, _, ok := nameAt(rs.msg, rs.owner)
	return ok && owner.is(name)
}

// skipName finds the end of the name at off, and nothing else of it.
func skipName(msg []byte, off int) (end int, ok bool) {
	for off < len(msg) {
		switch c := int(msg[off]); {
		case c == 0:
			return off + 1, true
		case c >= 0xc0:
			return off + 2, true
		case c > 63:
			return 0, false
		default:
			off += 1 + c
		}
	}
	return 0, false
}

// next moves to the next record of class IN and reports whether there is one.
func (rs *records) next() bool {
	for !rs.bad {
		for rs.left[rs.section] == 0 {
			if rs.section == sectionAuthority {
				return false
			}
			rs.section++
		}
		rs.left[rs.section]--
		if rs.read() == dns.ClassINET {
			return !rs.bad
		}
	}
	return false
}

// read reads one record and gives its class.
func (rs *records) read() uint16 {
	off, ok := skipName(rs.msg, rs.off)
	if !ok || off+10 > len(rs.msg) {
		rs.bad = true
		return 0
	}
	head := rs.msg[off:]
	rs.owner, rs.kind, rs.ttl = rs.off, binary.BigEndian.Uint16(head), binary.BigEndian.Uint32(head[4:])
	if rs.ttl > math.MaxInt32 {
		rs.ttl = 0 // RFC 2181 section 8
	}
	rs.data = off + 10
	rs.end = rs.data + int(binary.BigEndian.Uint16(head[8:]))
	rs.off = rs.end
	rs.bad = rs.end > len(rs.msg)
	return binary.BigEndian.Uint16(head[2:])
}

// aliases is where the CNAMEs of an answer lead.
type aliases struct {
	owner string // the name at their end
	hops  int
	ttl   uint32 // the shortest of theirs
}

// followAliases walks the CNAMEs of the answer from the question's name to where they end. A chain that is longer than
// maxAliases, or that comes back to itself, is not ok (RFC 1034 section 3.6.2).
func followAliases(msg []byte, q question) (a aliases, ok bool) {
	a = aliases{owner: q.name, ttl: math.MaxUint32}
	for a.hops <= maxAliases {
		target, found, good := aliasOf(msg, a.owner, &a.ttl)
		if !good || !found {
			return a, good
		}
		a.owner = target
		a.hops++
	}
	return a, false
}

// aliasOf finds the CNAME of one name.
func aliasOf(msg []byte, name string, ttl *uint32) (target string, found, ok bool) {
	rs := recordsOf(msg)
	for rs.next() {
		if rs.section != sectionAnswer {
			break
		}
		if rs.kind != dns.TypeCNAME || !rs.ownerIs(name) {
			continue
		}
		to, end, good := nameAt(msg, rs.data)
		if !good || end != rs.end || !to.isHost() || to.n == 0 {
			return "", false, false
		}
		*ttl = min(*ttl, rs.ttl)
		return to.String(), true, true
	}
	return "", false, !rs.bad
}
