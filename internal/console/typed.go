package console

import "github.com/alecthomas/kong"

// TypedFlags returns the names of the flags on the command line itself, without those whose value the configuration
// file gives.
func TypedFlags(parsed *kong.Context) map[string]bool {
	typed := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved {
			typed[p.Flag.Name] = true
		}
	}
	return typed
}
