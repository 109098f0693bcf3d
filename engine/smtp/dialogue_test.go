package smtp

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"probity/engine"
)

var rewrite = flag.Bool("rewrite", false, "write what was seen into the dialogues of testdata")

// A dialogue is a text file. Lines of it:
//
//	# words                 why it is here
//	> ehlo|from|tls|settle|patience VALUE, one-by-one   configuration
//	> open|ask A B|reset|wait 5s|quit|close   what the client does, in order; A | B are two transactions
//	S text                  the server sends a line          S+ "quoted"   sends bytes as they are
//	C text                  the server expects a line        X 1 line      a line of so many bytes / X 2 n: n lines
//	W 5s                    the server waits                 D 1s text     sends a line byte by byte, with pauses
//	T                       the server does a TLS handshake  E             the server closes
//	= words                 what came of it; written by -rewrite
func TestDialogues(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no dialogues")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d := parseDialogue(string(raw))
			synctest.Test(t, func(t *testing.T) { d.run(t) })
			got := d.head + strings.Join(d.result, "")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(raw) {
				t.Errorf("want\n%s\ngot\n%s", raw, got)
			}
		})
	}
}

type dialogue struct {
	head    string // all but the result
	cfg     Config
	actions []string
	script  []string
	result  []string
}

func parseDialogue(text string) *dialogue {
	d := &dialogue{cfg: Config{EHLO: "probe.example.net", MailFrom: "probe@example.net"}}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "= ") {
			continue
		}
		d.head += line
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "", "#":
		case ">":
			d.direct(rest)
		default:
			d.script = append(d.script, strings.TrimSuffix(line, "\n"))
		}
	}
	return d
}

func (d *dialogue) direct(words string) {
	verb, value, _ := strings.Cut(words, " ")
	switch verb {
	case "ehlo":
		d.cfg.EHLO = value
	case "from":
		d.cfg.MailFrom = value
	case "settle":
		d.cfg.Settle, _ = time.ParseDuration(value)
	case "patience":
		rest, _ := time.ParseDuration(value)
		d.cfg.Patience = func() bool { rest -= 30 * time.Second; return rest > 0 }
	case "one-by-one":
		d.cfg.OneByOne = true
	case "tls":
		d.cfg.TLS = map[string]engine.TLSPolicy{"never": engine.TLSNever, "required": engine.TLSRequired}[value]
	default:
		d.actions = append(d.actions, words)
	}
}

func (d *dialogue) say(format string, args ...any) {
	d.result = append(d.result, "= "+fmt.Sprintf(format, args...)+"\n")
}

func (d *dialogue) run(t *testing.T) {
	client, server := connect(64 << 10)
	done := make(chan string)
	go func() { done <- serve(server, d.script) }()
	start := time.Now()
	s, f := Open(t.Context(), client, d.cfg, "mx.example.org")
	if s == nil {
		d.say("open: %s", describe(f))
	} else {
		d.say("open: %d, hello %d, %s", s.banner.Code, s.hello.Code, offered(s))
		d.runAction(t.Context(), s)
	}
	d.say("%s after the beginning; server: %s", time.Since(start).Round(time.Millisecond), <-done)
}

func (d *dialogue) runAction(ctx context.Context, s *Session) {
	for _, action := range d.actions {
		verb, rest, _ := strings.Cut(action, " ")
		switch verb {
		case "ask":
			d.ask(ctx, s, rest)
		case "reset":
			d.say("reset: %s", describe(s.Reset(ctx)))
		case "wait":
			wait, _ := time.ParseDuration(rest)
			time.Sleep(wait)
		case "quit":
			before := s.Confirmed()
			d.say("quit: confirmed before %v, by QUIT %v", before, s.SayQuit(ctx))
			s.Quit(ctx)
			return
		}
	}
	d.say("close: confirmed %v", s.Confirmed())
	s.Close()
}

func (d *dialogue) ask(ctx context.Context, s *Session, words string) {
	var rcpts []Rcpt
	newTransaction := false
	for a := range strings.FieldsSeq(words) {
		if a == "|" {
			newTransaction = true
			continue
		}
		at := strings.LastIndexByte(a, '@')
		rcpts = append(rcpts, Rcpt{Local: a[:at], Domain: a[at+1:], NewTransaction: newTransaction})
		newTransaction = false
	}
	o := s.Transaction(ctx, rcpts, func(i int, r engine.Reply) {
		d.say("ask: %s@%s: %s", rcpts[i].Local, rcpts[i].Domain, show(r))
	})
	noUTF8 := ""
	if len(o.NoUTF8) > 0 {
		noUTF8 = fmt.Sprintf(", need SMTPUTF8: %v", o.NoUTF8)
	}
	d.say("ask: mail %d, %d of %d answered%s, %s, unusable: %v", o.Mail.Code, o.Answered, len(rcpts), noUTF8,
		describe(o.Fault), s.Unusable())
}

var eventNames = map[engine.Event]string{
	engine.EventReply: "reply", engine.EventConnectFailed: "connect failed", engine.EventTimeout: "timeout",
	engine.EventClosed: "closed", engine.EventOutOfStep: "out of step", engine.EventTLSFailed: "TLS failed",
	engine.EventRefusedHost: "refused host", engine.EventInternal: "internal",
}

func describe(f Fault) string {
	if f.None() {
		return "no fault"
	}
	s := fmt.Sprintf("%s at %s", eventNames[f.Event], f.Stage)
	if f.Detail != "" {
		s += " (" + f.Detail + ")"
	}
	if f.Reply.Code != 0 {
		s += ": " + show(f.Reply)
	}
	if f.RetryPlain {
		s += ", may be tried without TLS"
	}
	return s
}

func show(r engine.Reply) string {
	s := fmt.Sprintf("%s %d", r.Stage, r.Code)
	if r.Enhanced != (engine.Enhanced{}) {
		s += fmt.Sprintf(" (%d.%d.%d)", r.Enhanced.Class, r.Enhanced.Subject, r.Enhanced.Detail)
	}
	return s + fmt.Sprintf(" %q", r.Lines)
}

func offered(s *Session) string {
	x := s.Extensions()
	text := fmt.Sprintf("size %d", x.Size)
	if x.Pipelining {
		text += " pipelining"
	}
	if x.SMTPUTF8 {
		text += " smtputf8"
	}
	if x.MailMax+x.RcptMax+x.RcptDomainMax > 0 {
		text += fmt.Sprintf(" limits %d/%d/%d", x.MailMax, x.RcptMax, x.RcptDomainMax)
	}
	if s.secure {
		text += " over TLS"
	}
	return text
}

// serve plays the script and says how that went.
func serve(raw net.Conn, script []string) string {
	defer raw.Close()
	conn, in := raw, bufio.NewReader(raw)
	for _, line := range script {
		word, rest, _ := strings.Cut(line, " ")
		if word == "T" {
			tc := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate()}})
			if err := tc.Handshake(); err != nil {
				return "handshake failed"
			}
			conn, in = tc, bufio.NewReader(tc)
			continue
		}
		if trouble := play(conn, in, word, rest); trouble != "" {
			return trouble
		}
	}
	if n, _ := io.Copy(io.Discard, in); n > 0 {
		return fmt.Sprintf("%d bytes more than expected", n)
	}
	return "saw the end"
}

func play(conn net.Conn, in *bufio.Reader, word, rest string) string {
	switch word {
	case "S":
		_, _ = io.WriteString(conn, rest+"\r\n")
	case "S+":
		text, err := strconv.Unquote(rest)
		if err != nil {
			return err.Error()
		}
		_, _ = io.WriteString(conn, text)
	case "X":
		playExcess(conn, rest)
	case "D":
		pause, text, _ := strings.Cut(rest, " ")
		wait, _ := time.ParseDuration(pause)
		for i := range len(text) {
			time.Sleep(wait)
			_, _ = io.WriteString(conn, text[i:i+1])
		}
	case "W":
		wait, _ := time.ParseDuration(rest)
		time.Sleep(wait)
	case "E":
		_ = conn.Close()
		return "closed"
	case "C":
		got, err := in.ReadString('\n')
		if err != nil {
			return fmt.Sprintf("wanted %q, got %v", rest, err)
		}
		if got != rest+"\r\n" {
			return fmt.Sprintf("wanted %q, got %q", rest, got)
		}
	}
	return ""
}

// playExcess sends more than the bounds allow.
func playExcess(conn net.Conn, rest string) {
	kind, count, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(count)
	if kind == "line" {
		_, _ = io.WriteString(conn, "220 "+strings.Repeat("y", n)+"\r\n")
		return
	}
	for range n - 1 {
		_, _ = io.WriteString(conn, "250-again\r\n")
	}
	_, _ = io.WriteString(conn, "250 done\r\n")
}

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"mx.example.org"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
