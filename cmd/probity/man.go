package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"probity/internal/buildinfo"
)

type manCmd struct {
	Folder string `arg:"" type:"path" help:"Where the pages are written; made if it does not exist."`
}

// Run writes a page for each command, such as probity-certs-fleet.1.
func (c manCmd) Run(k *kong.Context) error {
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return err
	}
	for _, n := range append([]*kong.Node{k.Model.Node}, shownCommands(k.Model.Node)...) {
		if err := os.WriteFile(filepath.Join(c.Folder, manName(n)+".1"), []byte(manPage(n)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// shownCommands returns the commands below n that its help lists, each before its own sub-commands.
func shownCommands(n *kong.Node) (all []*kong.Node) {
	for _, child := range n.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			all = append(append(all, child), shownCommands(child)...)
		}
	}
	return all
}

func manName(n *kong.Node) string { return strings.ReplaceAll(n.FullPath(), " ", "-") }

// manPage returns the manual page of a command, in the macros of man(7).
func manPage(n *kong.Node) string {
	var b strings.Builder
	build := buildinfo.Current()
	date, _, _ := strings.Cut(build.Date, "T")
	fmt.Fprintf(&b, ".TH %s 1 %q %q\n", strings.ToUpper(roff(manName(n))), date, "probity "+build.Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(n)), roff(strings.TrimSuffix(n.Help, ".")))
	arguments := strings.TrimSpace(strings.TrimPrefix(n.Summary(), n.Path()))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", roff(n.FullPath()), roff(arguments))
	if n.Detail != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(n.Detail))
	}
	if len(n.Positional) > 0 {
		b.WriteString(".SH ARGUMENTS\n")
	}
	for _, p := range n.Positional {
		manItem(&b, p.Summary(), p.Help)
	}
	flags := n.AllFlags(true)
	b.WriteString(".SH OPTIONS\n")
	for i := len(flags) - 1; i >= 0; i-- { // its own before those of all commands
		for _, f := range flags[i] {
			manItem(&b, manFlag(f), f.Help+manVariables(f))
		}
	}
	if children := shownCommands(n); len(children) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, child := range children {
			manItem(&b, manName(child)+"(1)", child.Help)
		}
	}
	b.WriteString(".SH EXIT STATUS\n0 when it succeeded, 2 for wrong usage, 1 for any other failure.\n")
	if n.Parent != nil {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(manName(n.Parent)))
	}
	return b.String()
}

// manItem writes a term and its explanation.
func manItem(b *strings.Builder, term, help string) {
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(term), roff(help))
}

func manFlag(f *kong.Flag) string {
	if f.Short != 0 {
		return fmt.Sprintf("-%c, %s", f.Short, f.Summary())
	}
	return f.Summary()
}

// manVariables names the environment variables that set a flag.
func manVariables(f *kong.Flag) string {
	if len(f.Envs) == 0 {
		return ""
	}
	return " ($" + strings.Join(f.Envs, ", $") + ")"
}

// roff escapes text for troff: no hyphen becomes another character, and no line is a macro.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
