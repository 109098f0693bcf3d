package smtp

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"probity/engine"
)

func readAll(src io.Reader) (replies []engine.Reply, detail string) {
	cfg := Config{MaxLine: 64, MaxReplyLines: 5, MaxReplyBytes: 100, MaxBytes: 1 << 10}
	r := newReplyReader(src, &cfg, func(time.Duration) {})
	for {
		reply, detail, err := r.reply(engine.StageRcpt, time.Second)
		if err != nil || detail != "" {
			return replies, detail
		}
		replies = append(replies, reply)
	}
}

// FuzzReply: any bytes are replies within the bounds, then an end; and how they were cut into packets changes nothing.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{"220 mx\r\n", "250-a\r\n250 b\r\n", "550 5.1.1 no\n", "250\r\n", "999 x\r\n", "\x00\r\n", "250-a\r\n251 b\r\n",
		strings.Repeat("250-a\r\n", 9), strings.Repeat("x", 99), "250 ok\r\n250 ok\r\n250 ok\r\n", "550 5.1.1 \xff\x1b\r\n"} {
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
	})
}

func TestKnownReplyCostsNothing(t *testing.T) {
	src := strings.NewReader("")
	cfg := Config{}.withDefaults()
	r := newReplyReader(src, &cfg, func(time.Duration) {})
	r.left = 1 << 40
	read := func() {
		src.Reset("250 2.1.5 OK\r\n550 5.1.1 no such user\r\n")
		for range 2 {
			if reply, detail, err := r.reply(engine.StageRcpt, time.Second); err != nil || detail != "" || len(reply.Lines) != 1 {
				t.Fatal(reply, detail, err)
			}
		}
	}
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestEnhanced(t *testing.T) {
	for text, want := range map[string]engine.Enhanced{
		"5.1.1 no": {Class: 5, Subject: 1, Detail: 1}, "5.7.606": {Class: 5, Subject: 7, Detail: 606}, "5.1.1. no": {Class: 5, Subject: 1, Detail: 1},
		"5.1.1.1": {}, "5.1": {}, "5.1.": {}, "5..1": {}, "3.1.1": {}, "5.1234.1": {}, "no 5.1.1": {}, "": {},
	} {
		if got, _ := readEnhanced(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestQuotes(t *testing.T) {
	for line, want := range map[string]bool{
		"<ann@example.org> unknown": true, "ANN@Example.Org": true, "(ann@example.org.)": true, "ann@example.org: no": true,
		"joann@example.org": false, "ann@example.org.uk": false, "ann@example": false, "@": false, "": false,
		"bob@example.org, ann@example.org": true, "x@ann@example.org": true,
	} {
		if got := quotedIn(line, Rcpt{"ann", "example.org"}); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
