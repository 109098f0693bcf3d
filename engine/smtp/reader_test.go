package smtp

import (
	"bytes"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"probity/engine"
	"probity/engine/replyline"
)

// readConn is a connection of which only the reading side is used.
type readConn struct {
	net.Conn
	src io.Reader
}

func (c readConn) Read(b []byte) (int, error) { return c.src.Read(b) }

func newTestReader(src io.Reader, cfg *Config) replyReader {
	return newReplyReader(newPollConn(readConn{src: src}), cfg, func(time.Duration) {})
}

func readAll(src io.Reader) (replies []engine.Reply, detail string) {
	cfg := Config{MaxLine: 64, MaxReplyLines: 5, MaxReplyBytes: 100, MaxBytes: 1 << 10}
	r := newTestReader(src, &cfg)
	for {
		reply, detail, err := r.reply(engine.StageRcpt, time.Second)
		if err != nil || detail != "" {
			return replies, detail
		}
		replies = append(replies, reply)
	}
}

// FuzzReply: any bytes are replies within the bounds, then an end; how they were cut into packets changes nothing, and
// engine.ParseReply reads a reply as the session does.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{"220 mx\r\n", "250-a\r\n250 b\r\n", "550 5.1.1 no\n", "250\r\n", "999 x\r\n",
		"\x00\r\n", "250-a\r\n251 b\r\n",
		strings.Repeat("250-a\r\n", 9), strings.Repeat("x", 99), "250 ok\r\n250 ok\r\n250 ok\r\n",
		"550 5.1.1 \xff\x1b\r\n",
		"220-wait\r\n521 go\r\n", "550no\n", " 550-a\nb\n550c \t\r\n", "\r\n250 ok\nand more\n\n550 no\n",
		"550-a\n250 b\n550 c\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, detail := readAll(bytes.NewReader(data))
		for _, r := range whole {
			if r.Code < 200 || r.Code > 599 || len(r.Lines) < 1 || len(r.Lines) > 5 || r.Stage != engine.StageRcpt {
				t.Fatalf("%+v", r)
			}
			for _, line := range r.Lines {
				if !utf8.ValidString(line) || strings.ContainsAny(line, "\r\n\x00") || len(line) > 3*64 {
					t.Fatalf("%q", line)
				}
			}
		}
		bytewise, detail2 := readAll(iotest.OneByteReader(bytes.NewReader(data)))
		if !reflect.DeepEqual(whole, bytewise) || detail != detail2 {
			t.Fatalf("%+v %q\n%+v %q", whole, detail, bytewise, detail2)
		}
		if plain := strings.ReplaceAll(string(data), "\r\n", "\n"); bytes.Count(data, []byte("\n")) < 64 &&
			strings.IndexFunc(plain, func(c rune) bool { return c != '\n' && (c < ' ' || c > '~') }) < 0 {
			parsesAlike(t, data)
		}
	})
}

func TestKnownReplyAllocatesNothing(t *testing.T) {
	src := strings.NewReader("")
	cfg := Config{}.withDefaults()
	r := newTestReader(src, &cfg)
	r.left = 1 << 40
	read := func() {
		src.Reset("250 2.1.5 OK\r\n550 5.1.1 no such user\r\n")
		for range 2 {
			if reply, detail, err := r.reply(engine.StageRcpt, time.Second); err != nil || detail != "" ||
				len(reply.Lines) != 1 {
				t.Fatal(reply, detail, err)
			}
		}
	}
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSessionAndParseReplyAgree: a session and engine.ParseReply read a reply that both accept in the same way.
func TestSessionAndParseReplyAgree(t *testing.T) {
	for _, raw := range []string{"550 5.1.1 no", "550-5.1.1 no\r\n550 5.1.1 such user", "550\tno",
		"550-a\r\n550\t5.1.1 b", "250", "250-\r\n250", "550 sorry (#5.1.1)",
		"550 said: 550 5.2.1 no", "550 4.1.1 wrong class", "550 7.7.1 no class", "550 5.1.1.1 address",
		"550 MTA version 5.1.1", "550 5.1.12345 long", "550 5.7.606", "550  5.1.1 two spaces",
		"220-wait\r\n521 no", "550no", "550:no", " \t550 no", "550-a\r\nb\r\n\r\n550 c", "550-a\n550b",
		"550-a\r\n250 b\r\n550 c", "550 a \t", "550-\xd3\xc3\r\n550 b"} {
		if !parsesAlike(t, []byte(raw+"\r\n")) {
			t.Errorf("%q is not a reply", raw)
		}
	}
	for _, raw := range []string{"5505 x", "55 x", "650 x", "150 x", "hello", ""} {
		if _, err := engine.ParseReply(engine.StageRcpt, raw); err == nil || parsesAlike(t, []byte(raw+"\r\n")) {
			t.Errorf("%q was read", raw)
		}
	}
}

// begins reports whether a reply begins with a line; sessions skip lines without a code before it, which belong to an
// earlier one.
func begins(line []byte) bool {
	_, _, ok := replyline.Code(line)
	return ok
}

// parsesAlike reports whether data is one whole reply to a session, and requires that engine.ParseReply reads the same.
func parsesAlike(t *testing.T, data []byte) bool {
	t.Helper()
	cfg := Config{}.withDefaults()
	r := newTestReader(bytes.NewReader(data), &cfg)
	got, detail, err := r.reply(engine.StageRcpt, time.Second)
	if first, _, _ := bytes.Cut(data, []byte("\n")); err != nil || detail != "" || r.holdsAny() || !begins(first) {
		return false
	}
	want, err := engine.ParseReply(engine.StageRcpt, replyline.Escape(string(data)))
	if err != nil || got.Code != want.Code || got.Enhanced != want.Enhanced || got.Stage != want.Stage ||
		len(got.Lines) != len(want.Lines) {
		t.Errorf("%q: session reads %+v, ParseReply %+v, %v", data, got, want, err)
	}
	return true
}

func TestQuotes(t *testing.T) {
	for line, want := range map[string]bool{
		"<ann@example.org> unknown": true, "ANN@Example.Org": true, "(ann@example.org.)": true,
		"ann@example.org: no": true,
		"joann@example.org":   false, "ann@example.org.uk": false, "ann@example": false, "@": false, "": false,
		"bob@example.org, ann@example.org": true, "x@ann@example.org": true,
	} {
		if got := quotedIn(line, Rcpt{Local: "ann", Domain: "example.org"}); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
