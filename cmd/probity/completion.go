package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/alecthomas/kong"

	"probity/internal/console"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints a script to be sourced. It completes commands, sub-commands and flags, and file names elsewhere.
func (c completionCmd) Run(con *console.IO, k *kong.Context) error {
	words := completionWords(k.Model.Node, "")
	paths := make([]string, 0, len(words))
	for p := range words {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	var b strings.Builder
	switch c.Shell {
	case "bash":
		writeBash(&b, paths, words)
	case "zsh":
		writeZsh(&b, paths, words)
	case "fish":
		for _, p := range paths {
			fmt.Fprintf(&b, "complete -c probity -n '%s' -a '%s'\n", fishCondition(p), words[p])
		}
	}
	_, err := fmt.Fprint(con.Out, b.String())
	return err
}

// completionWords maps a command path ("sim serve") to what may follow it.
func completionWords(n *kong.Node, path string) map[string]string {
	words := map[string]string{}
	var own []string
	for _, child := range n.Children {
		if child.Type != kong.CommandNode || child.Hidden {
			continue
		}
		own = append(own, child.Name)
		for p, w := range completionWords(child, strings.TrimSpace(path+" "+child.Name)) {
			words[p] = w
		}
	}
	for _, f := range n.Flags {
		own = append(own, "--"+f.Name)
	}
	words[path] = strings.Join(own, " ")
	return words
}

func fishCondition(path string) string {
	if path == "" {
		return "__fish_use_subcommand"
	}
	const seen = "__fish_seen_subcommand_from "
	return seen + strings.Join(strings.Fields(path), "; and "+seen)
}

// writeBash writes a function for bash's complete. Flags are completed once a dash is typed, so that file names can be
// until then.
func writeBash(b *strings.Builder, paths []string, words map[string]string) {
	b.WriteString("_probity() {\n  local cur=${COMP_WORDS[COMP_CWORD]} command='' word\n")
	writeCommandLoop(b, `"${COMP_WORDS[@]:1:COMP_CWORD-1}"`, paths)
	b.WriteString("  case $command in\n")
	for _, p := range paths {
		fmt.Fprintf(b, "  '%s') COMPREPLY=($(compgen -W '%s' -- \"$cur\"));;\n", p, words[p])
	}
	b.WriteString("  esac\n  [[ $cur == -* ]] || COMPREPLY=(${COMPREPLY[@]##--*})\n}\n" +
		"complete -o default -F _probity probity\n")
}

// writeZsh writes a function that behaves like that of bash. The file works in a folder of fpath, where compinit reads
// its first line and its first use must complete at once, and when it is sourced.
func writeZsh(b *strings.Builder, paths []string, words map[string]string) {
	b.WriteString("#compdef probity\n\n_probity() {\n  local command='' word\n  local -a found\n")
	writeCommandLoop(b, `"${(@)words[2,CURRENT-1]}"`, paths)
	b.WriteString("  case $command in\n")
	for _, p := range paths {
		fmt.Fprintf(b, "  '%s') found=(%s);;\n", p, words[p])
	}
	b.WriteString("  esac\n  [[ $PREFIX == -* ]] || found=(${found:#--*})\n  compadd -a found || _files\n}\n\n" +
		"if [[ $funcstack[1] == _probity ]]; then\n  _probity\nelse\n  compdef _probity probity\nfi\n")
}

// writeCommandLoop writes a loop over the words of a line that sets command to its command and sub-command. A word that
// makes no longer command is an argument or the value of a flag.
func writeCommandLoop(b *strings.Builder, words string, paths []string) {
	fmt.Fprintf(b, "  for word in %s; do\n    case \"${command:+$command }$word\" in\n", words)
	fmt.Fprintf(b, "    '%s') command=\"${command:+$command }$word\";;\n    esac\n  done\n", strings.Join(paths, "'|'"))
}
