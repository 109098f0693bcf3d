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
	if c.Shell == "fish" {
		for _, p := range paths {
			fmt.Fprintf(&b, "complete -c probity -n '%s' -a '%s'\n", fishCondition(p), words[p])
		}
	} else {
		writeBash(&b, c.Shell, paths, words)
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

// writeBash writes one function for bash; zsh runs it through bashcompinit. Flags are completed once a dash is typed,
// so that file names can be until then.
func writeBash(b *strings.Builder, shell string, paths []string, words map[string]string) {
	if shell == "zsh" {
		b.WriteString("autoload -U +X bashcompinit && bashcompinit\n")
	}
	b.WriteString("_probity() {\n  local cur=${COMP_WORDS[COMP_CWORD]} path='' w\n")
	// A word that makes no longer command is an argument or the value of a flag.
	fmt.Fprintf(b, "  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"${path:+$path }$w\" in '%s') path=\"${path:+$path }$w\";; esac\n  done\n",
		strings.Join(paths, "'|'"))
	b.WriteString("  case $path in\n")
	for _, p := range paths {
		fmt.Fprintf(b, "  '%s') COMPREPLY=($(compgen -W '%s' -- \"$cur\"));;\n", p, words[p])
	}
	b.WriteString("  esac\n  [[ $cur == -* ]] || COMPREPLY=(${COMPREPLY[@]##--*})\n}\ncomplete -o default -F _probity probity\n")
}
