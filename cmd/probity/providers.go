package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"probity/engine"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/providerview"
	"probity/prober/doctor"
)

type providersCmd struct {
	Check providersCheckCmd `cmd:"" help:"Check a file of overrides: mistakes by key and line, and what is looser than shipped."`
	Show  providersShowCmd  `cmd:"" help:"Show the provider table, one provider or one rule, with the source and date of each rule."`
}

type providersCheckCmd struct {
	File   string `arg:"" type:"existingfile" help:"Overrides of the provider table, TOML."`
	Strict bool   `help:"Warnings fail as well."`
	JSON   bool   `name:"json" help:"One JSON object a remark."`
}

// errBadFile means that the file has errors.
var errBadFile = errors.New("the file is not good")

// Run prints each remark with FILE:LINE. Errors fail the command, warnings do not.
func (c providersCheckCmd) Run(con *console.IO) error {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	table, remarks := doctor.CheckProviders(engine.DefaultTable(), data)
	if err := c.print(con.Out, remarks); err != nil {
		return err
	}
	if table == nil || c.Strict && len(remarks) > 0 {
		return fmt.Errorf("%s: %w", c.File, errBadFile)
	}
	if !c.JSON {
		fmt.Fprintf(con.Out, "%s: good, %s\n", c.File, console.Counted(len(remarks), "warning"))
	}
	return nil
}

func (c providersCheckCmd) print(w io.Writer, remarks []doctor.Remark) error {
	out := console.NewLineWriter(w)
	for _, r := range remarks {
		if c.JSON {
			if err := out.Encode(r); err != nil {
				return err
			}
			continue
		}
		at := c.File
		if r.Line > 0 {
			at += ":" + strconv.Itoa(r.Line)
		}
		if r.Key != "" {
			at += ": " + r.Key
		}
		fmt.Fprintf(out, "%s: %s: %s", at, r.Severity, r.Message)
		if r.Advice != "" {
			fmt.Fprintf(out, "; %s", r.Advice)
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

type providersShowCmd struct {
	ID        string `arg:"" optional:"" help:"A provider: its id, name, a domain or an MX host; 'generic' for what holds for all; or a rule by its id, as in google/no-such-user."`
	Providers string `help:"Overrides to show laid over the shipped table." type:"existingfile" placeholder:"FILE"`
	JSON      bool   `name:"json" help:"One JSON object."`
}

// Run shows all of the table, or one provider.
func (c providersShowCmd) Run(con *console.IO) error {
	flags := nodeflags.Probing{Providers: c.Providers}
	table, err := flags.Table()
	if err != nil {
		return err
	}
	view := providerview.New(table)
	if c.ID != "" {
		if view, err = view.ForProvider(table, c.ID); err != nil {
			return err
		}
	}
	if c.JSON {
		enc := json.NewEncoder(con.Out)
		enc.SetEscapeHTML(false)
		return enc.Encode(view)
	}
	return view.Print(con.Out, c.ID != "")
}
