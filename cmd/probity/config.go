package main

import (
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"github.com/pelletier/go-toml/v2"
)

// fileValues are flag values from a configuration file: one flat table, keys as the flags are named.
type fileValues map[string]any

func loadConfig(r io.Reader) (kong.Resolver, error) {
	values := fileValues{}
	if err := toml.NewDecoder(r).Decode(&values); err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	return values, nil
}

// Validate refuses keys that no command has, so that a misspelled one is not silently ignored.
func (v fileValues) Validate(app *kong.Application) error {
	known := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			known[f.Name] = true
		}
		return next(nil)
	})
	for key := range v {
		if !known[key] {
			return fmt.Errorf("configuration file: no flag is named %q; keys are flag names without their dashes", key)
		}
	}
	return nil
}

// Resolve returns the value of a flag, or nil if the flag's environment variable is set.
func (v fileValues) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, ok := os.LookupEnv(env); ok {
			return nil, nil
		}
	}
	return v[flag.Name], nil
}
