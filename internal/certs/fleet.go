package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"probity/internal/console"
)

// fleetCmd is init, coordinator and node in one, for scripts that may run again.
type fleetCmd struct {
	folder
	Coordinator string   `arg:"" help:"The coordinator's name."`
	Nodes       []string `arg:"" help:"Names of nodes, as in probity prober --name."`
	Days        int      `help:"How long new certificates are valid." default:"825"`
}

// Run makes the missing files and does not change existing ones.
func (c fleetCmd) Run(con *console.IO) error {
	if missing, err := c.missing(AuthorityFile); err != nil {
		return err
	} else if missing {
		if err := (initCmd{folder: c.folder, Name: "probity", Days: authorityDays}).makeAuthority(con); err != nil {
			return err
		}
	}
	if err := c.issueMissing(con, []string{c.Coordinator}, x509.ExtKeyUsageClientAuth); err != nil {
		return err
	}
	if err := c.issueMissing(con, c.Nodes, x509.ExtKeyUsageServerAuth); err != nil {
		return err
	}
	fmt.Fprintf(con.Err, "All files of the cluster are in %s. Next: copy %s, %s and a machine's own two files to each machine, then start probity coordinator on %s and probity prober on the others.\n",
		c.Dir, AuthorityFile, KeyFile, c.Coordinator)
	return nil
}

// issueMissing makes the missing certificates.
func (c fleetCmd) issueMissing(con *console.IO, names []string, use x509.ExtKeyUsage) error {
	var wanted []string
	for _, name := range names {
		missing, err := c.missing(name + ".crt")
		if err != nil {
			return err
		}
		if missing {
			wanted = append(wanted, name)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return c.issue(con, wanted, use, c.Days)
}

func (c fleetCmd) missing(name string) (bool, error) {
	_, err := os.Lstat(c.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", c.path(name), err)
	}
	return false, nil
}
