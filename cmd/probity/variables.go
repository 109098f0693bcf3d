package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"probity/internal/admin"
	"probity/internal/console"
	"probity/internal/providerview"
)

// variablePrefix is the prefix of all environment variables of the program.
const variablePrefix = "PROBITY_"

// unsetEmptyVariables unsets PROBITY_ variables that are empty.
func unsetEmptyVariables() {
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); value == "" && strings.HasPrefix(name, variablePrefix) {
			_ = os.Unsetenv(name) // fails only for names that an environment cannot hold
		}
	}
}

// warnOfUnknownVariables warns of PROBITY_ variables that no command reads, and names the nearest that one does.
// Otherwise a misspelt variable would silently have no effect.
func warnOfUnknownVariables(con *console.IO, app *kong.Application) {
	known := []string{admin.KeyEnv, admin.CustomerKeyEnv}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			known = append(known, f.Envs...)
		}
		return next(nil)
	})
	for _, kv := range con.Environ {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) {
			continue
		}
		similar := slices.MinFunc(known, func(a, b string) int {
			return cmp.Compare(providerview.EditDistance(name, a), providerview.EditDistance(name, b))
		})
		fmt.Fprintf(con.Err, "warning: no command reads the environment variable %s; the nearest known name is %s\n",
			console.Printable(name), similar)
	}
}
