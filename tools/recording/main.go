// Recording runs shell commands and draws what a terminal shows of them as an SVG that plays in a browser.
//
//	go run -C tools ./recording -o FILE COMMAND...
//
// The commands run in one shell after another, in the working folder. A reader who prefers less motion sees the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"html"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"unicode/utf8"
)

// Sizes in units of the drawing, and times in seconds.
const (
	charWidth  = 8.4 // of a 14-pixel monospaced font
	lineHeight = 19
	margin     = 20
	columns    = 100

	perCharacter = 0.04 // of a command that is typed
	beforeOutput = 0.5
	perLine      = 0.06
	beforeNext   = 2.0
	atTheEnd     = 8.0 // then it begins again
)

const prompt = "$ "

// quiet begins what a command is piped into to leave out its progress, which a terminal overwrites. It is not shown.
const quiet = " 2>&1 | grep -v"

func main() {
	log.SetFlags(0)
	out := flag.String("o", "", "the SVG `file` to write")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		log.Fatal("usage: recording -o FILE COMMAND...")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var r recording
	for _, command := range flag.Args() {
		shown, _, _ := strings.Cut(command, quiet)
		output, err := exec.CommandContext(ctx, "bash", "-c", command).CombinedOutput()
		if err != nil {
			log.Fatalf("%s: %v: %s", command, err, output)
		}
		r.add(shown, string(output))
	}
	if err := os.WriteFile(*out, []byte(r.svg()), 0o644); err != nil {
		log.Fatal(err)
	}
}

// recording is the lines of a terminal, each with the second at which it appears.
type recording struct {
	lines []line
	at    float64
}

type line struct {
	text  string
	typed bool // a command
	at    float64
}

// add appends a command and what it printed.
func (r *recording) add(command, output string) {
	if len(r.lines) > 0 {
		r.lines = append(r.lines, line{at: r.at})
		r.at += beforeNext
	}
	r.lines = append(r.lines, line{text: prompt + command, typed: true, at: r.at})
	r.at += perCharacter*float64(len(command)) + beforeOutput
	for text := range strings.Lines(output) {
		r.lines = append(r.lines, line{text: shorten(strings.TrimRight(text, "\r\n")), at: r.at})
		r.at += perLine
	}
}

// shorten cuts a line at the terminal's last column.
func shorten(text string) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:columns-1]) + "…"
}

const style = `
text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d7dde5; white-space: pre }
.command { fill: #8be9a8 }
@media (prefers-reduced-motion: no-preference) { .line { animation: %.2fs step-end infinite } }
`

func (r *recording) svg() string {
	all := r.at + atTheEnd
	width, height := 2*margin+int(columns*charWidth), 2*margin+lineHeight*len(r.lines)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<style>"+style, all)
	for i, l := range r.lines {
		fmt.Fprintf(&b, "@keyframes l%d { 0%% { opacity: 0 } %.2f%%, 100%% { opacity: 1 } }\n", i, 100*l.at/all)
	}
	b.WriteString("</style>\n" + `<rect width="100%" height="100%" rx="8" fill="#14181f"/>` + "\n")
	for i, l := range r.lines {
		class := "line"
		if l.typed {
			class += " command"
		}
		fmt.Fprintf(&b, `<text class="%s" style="animation-name: l%d" x="%d" y="%d" xml:space="preserve">%s</text>`+"\n",
			class, i, margin, margin+lineHeight*i+lineHeight/2+5, html.EscapeString(l.text))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
