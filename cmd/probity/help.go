package main

import (
	"fmt"

	"github.com/alecthomas/kong"

	"probity/internal/console"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as verify or certs fleet; default: all commands."`
}

// Run prints what --help of the command prints.
func (c helpCmd) Run(k *kong.Context) error {
	named, err := kong.Trace(k.Kong, c.Command)
	if err == nil {
		err = named.Error
	}
	if err != nil {
		return fmt.Errorf("%w: help: %w; probity help lists the commands", console.ErrUsage, err)
	}
	return named.PrintUsage(false)
}
