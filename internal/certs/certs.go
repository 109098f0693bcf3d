package certs

import (
	"crypto/x509"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"probity/internal/console"
	"probity/internal/wholefile"
)

// Command makes the certificates and keys by which the machines of a cluster authenticate each other.
type Command struct {
	Init        initCmd        `cmd:"" help:"Make the cluster's authority and its first gossip key."`
	Coordinator coordinatorCmd `cmd:"" help:"Make a coordinator's certificate."`
	Node        nodeCmd        `cmd:"" help:"Make the certificates of prober nodes."`
	Fleet       fleetCmd       `cmd:"" help:"Make the missing files of a cluster."`
	Key         keyCmd         `cmd:"" help:"Rotate the gossip key."`
	Show        showCmd        `cmd:"" help:"Say what certificates are."`
}

// The files of a cluster's folder.
const (
	AuthorityFile = "ca.crt"
	authorityKey  = "ca.key"
	KeyFile       = "cluster.key"
)

// folder is the folder of these files.
type folder struct {
	Dir string `help:"Folder of the files." default:"./probity-certs" placeholder:"DIR"`
}

func (f folder) path(name string) string { return filepath.Join(f.Dir, name) }

type initCmd struct {
	folder
	Name string `help:"Name of the cluster, as the authority's certificate bears it." default:"probity"`
	Days int    `help:"How long the authority is valid." default:"3650"`
}

const authorityDays = 3650

// Run makes the authority, and says which command is next.
func (c initCmd) Run(con *console.IO) error {
	if err := c.makeAuthority(con); err != nil {
		return err
	}
	fmt.Fprintln(con.Err, "Next: probity certs coordinator NAME, and probity certs node NAME for each prober.")
	return nil
}

// makeAuthority makes ca.crt, ca.key and cluster.key. It never changes existing files.
func (c initCmd) makeAuthority(con *console.IO) error {
	if err := validDays(c.Days); err != nil {
		return err
	}
	issued, err := newAuthority(c.Name, time.Now(), days(c.Days))
	if err != nil {
		return err
	}
	if err := wholefile.WriteNewSecrets([]wholefile.Secret{{Path: c.path(AuthorityFile), Data: issued.cert},
		{Path: c.path(authorityKey), Data: issued.key}, {Path: c.path(KeyFile), Data: keyLine(newKey())}}); err != nil {
		return err
	}
	fmt.Fprintf(con.Out, "%s\tthe authority's certificate: copy it to every machine\n", c.path(AuthorityFile))
	fmt.Fprintf(con.Out, "%s\tthe authority's key: keep it here, off the network if you can; who has it can join the cluster\n", c.path(authorityKey))
	fmt.Fprintf(con.Out, "%s\tthe gossip key: copy it to every machine, over a channel that you trust\n",
		c.path(KeyFile))
	return nil
}

type coordinatorCmd struct {
	folder
	Name string `arg:"" help:"The coordinator's name."`
	Days int    `help:"How long the certificate is valid." default:"825"`
}

// Run makes NAME.crt and NAME.key for client authentication: they can attach to nodes but not act as one.
func (c coordinatorCmd) Run(con *console.IO) error {
	return c.issue(con, []string{c.Name}, x509.ExtKeyUsageClientAuth, c.Days)
}

type nodeCmd struct {
	folder
	Names []string `arg:"" help:"Names of nodes, as in probity prober --name."`
	Days  int      `help:"How long the certificates are valid." default:"825"`
}

// Run makes NAME.crt and NAME.key of each node for server authentication: they cannot attach to another node.
func (c nodeCmd) Run(con *console.IO) error {
	return c.issue(con, c.Names, x509.ExtKeyUsageServerAuth, c.Days)
}

// issue makes and writes certificates of one use: all of them, or none.
func (f folder) issue(con *console.IO, names []string, use x509.ExtKeyUsage, valid int) error {
	if err := validDays(valid); err != nil {
		return err
	}
	signer, err := readAuthority(f.path(AuthorityFile), f.path(authorityKey))
	if err != nil {
		return err
	}
	var files []wholefile.Secret
	for _, name := range names {
		if err := ValidName(name); err != nil {
			return err
		}
		issued, err := signer.issue(name, use, time.Now(), days(valid))
		if err != nil {
			return fmt.Errorf("certificate %s: %w", name, err)
		}
		files = append(files, wholefile.Secret{Path: f.path(name + ".crt"), Data: issued.cert},
			wholefile.Secret{Path: f.path(name + ".key"), Data: issued.key})
	}
	if err := wholefile.WriteNewSecrets(files); err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(con.Out, "%s\t%s\n", f.path(name+".crt"), "copy it to "+name)
		fmt.Fprintf(con.Out, "%s\t%s\n", f.path(name+".key"), "move it to "+name)
	}
	return nil
}

type showCmd struct {
	Files []string `arg:"" help:"Certificate files." type:"existingfile"`
}

// Run prints a line for each certificate: name, role, expiry.
func (c showCmd) Run(con *console.IO) error {
	for _, file := range c.Files {
		cert, err := Read(file)
		if err != nil {
			return err
		}
		left := time.Until(cert.NotAfter)
		state := console.Counted(int(left/(24*time.Hour)), "day") + " left"
		if left <= 0 {
			state = "EXPIRED"
		}
		fmt.Fprintf(con.Out, "%s\t%s\t%s\tuntil %s, %s\n", file, cert.Subject.CommonName, RoleOf(cert),
			cert.NotAfter.UTC().Format(time.DateOnly), state)
	}
	return nil
}

// RoleOf names the roles that a certificate allows.
func RoleOf(c *x509.Certificate) string {
	var parts []string
	if c.IsCA {
		parts = append(parts, "authority")
	}
	for _, use := range c.ExtKeyUsage {
		switch use {
		case x509.ExtKeyUsageServerAuth:
			parts = append(parts, "prober node")
		case x509.ExtKeyUsageClientAuth:
			parts = append(parts, "coordinator")
		}
	}
	return strings.Join(parts, ", ")
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

func validDays(n int) error {
	if n < 1 || n > 36500 {
		return fmt.Errorf("%w: --days %d; write 1 to 36500", console.ErrUsage, n)
	}
	return nil
}

// ValidName checks that a name is a host name (RFC 1123 section 2.1) in lower case, since peers compare it with the
// name in the certificate, and that its files do not replace others of the folder.
func ValidName(name string) error {
	bad := fmt.Errorf("%w: name %q; write a host name of lower-case letters, digits, hyphens and dots",
		console.ErrUsage, name)
	if len(name) > 63 || name+".crt" == AuthorityFile || name == "cluster" {
		return bad
	}
	for _, label := range strings.Split(name, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return bad
		}
	}
	return nil
}
