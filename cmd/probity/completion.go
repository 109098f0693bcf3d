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
		bash.write(&b, paths, words)
	case "zsh":
		zsh.write(&b, paths, words)
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

// script is what completes words in a shell whose functions have loops and cases like those of bash.
type script struct {
	head, tail string // of its function, and around that
	before     string // the words before the one that is completed
	found      string // sets what was found to the words, as a format
}

// Flags are completed once a dash is typed, so that file names can be until then. The file for zsh works in a folder of
// fpath, where compinit reads its first line and its first use must complete at once, and when it is sourced.
var (
	bash = script{
		head:   "_probity() {\n  local cur=${COMP_WORDS[COMP_CWORD]} command='' word\n",
		before: `"${COMP_WORDS[@]:1:COMP_CWORD-1}"`,
		found:  "COMPREPLY=($(compgen -W '%s' -- \"$cur\"))",
		tail: "  [[ $cur == -* ]] || COMPREPLY=(${COMPREPLY[@]##--*})\n}\n" +
			"complete -o default -F _probity probity\n",
	}
	zsh = script{
		head:   "#compdef probity\n\n_probity() {\n  local command='' word\n  local -a found\n",
		before: `"${(@)words[2,CURRENT-1]}"`,
		found:  "found=(%s)",
		tail: "  [[ $PREFIX == -* ]] || found=(${found:#--*})\n  compadd -a found || _files\n}\n\n" +
			"if [[ $funcstack[1] == _probity ]]; then\n  _probity\nelse\n  compdef _probity probity\nfi\n",
	}
)

// write writes the script: a loop over the words of a line sets command to its command and sub-command, and a case
// finds what may follow that. A word that makes no longer command is an argument or the value of a flag.
func (s script) write(b *strings.Builder, paths []string, words map[string]string) {
	b.WriteString(s.head)
	fmt.Fprintf(b, "  for word in %s; do\n    case \"${command:+$command }$word\" in\n", s.before)
	fmt.Fprintf(b, "    '%s') command=\"${command:+$command }$word\";;\n    esac\n  done\n", strings.Join(paths, "'|'"))
	b.WriteString("  case $command in\n")
	for _, p := range paths {
		fmt.Fprintf(b, "  '%s') "+s.found+";;\n", p, words[p])
	}
	b.WriteString("  esac\n" + s.tail)
}
