package main

import (
	"probity/internal/console"
	"probity/internal/licences"
)

type licencesCmd struct{}

// Run prints the texts of all licences.
func (licencesCmd) Run(con *console.IO) error { return licences.Write(con.Out) }
