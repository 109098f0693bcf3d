package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// runCerts runs the certs command and returns its output.
func runCerts(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, _, err := runCertsAsUser(t, args...)
	return out, err
}

// runCertsAsUser is runCerts with the lines for the user too.
func runCertsAsUser(t *testing.T, args ...string) (printed, told string, err error) {
	t.Helper()
	var out, words bytes.Buffer
	con := &console.IO{Out: &out, Err: &words}
	var c struct {
		Certs Command `cmd:""`
	}
	parser, err := kong.New(&c, kong.Bind(con))
	require.NoError(t, err)
	parsed, err := parser.Parse(append([]string{"certs"}, args...))
	if err != nil {
		return "", "", err
	}
	err = parsed.Run()
	return out.String(), words.String(), err
}

func TestCertsOfACluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	at := func(name string) string { return filepath.Join(dir, name) }
	out, err := runCerts(t, "init", "--dir", dir, "--name", "mail lab")
	require.NoError(t, err)
	require.Contains(t, out, at("ca.key")+"\tthe authority's key: keep it here")
	_, err = runCerts(t, "coordinator", "boss.example", "--dir", dir)
	require.NoError(t, err)
	out, err = runCerts(t, "node", "n1", "n2.example", "--dir", dir, "--days", "30")
	require.NoError(t, err)
	require.Contains(t, out, at("n2.example.key")+"\tmove it to n2.example")

	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 9)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f.Name())
	}
	out, err = runCerts(t, "show", at("ca.crt"), at("boss.example.crt"), at("n1.crt"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)ca\.crt	mail lab cluster authority	authority	until .*, 3649 days left$`, out)
	require.Regexp(t, `(?m)boss\.example\.crt	boss\.example	coordinator	until .*, 824 days left$`, out)
	require.Regexp(t, `(?m)n1\.crt	n1	prober node	until .*, 29 days left$`, out)

	require.NoError(t, handshake(t, dir, "n1", "boss.example", "n1"))
	require.ErrorContains(t, handshake(t, dir, "n1", "boss.example", "n2.example"),
		"certificate is valid for n1, not n2.example")
	require.Error(t, handshake(t, dir, "n1", "n2.example", "n1"), "a node is no coordinator")
	require.Error(t, handshake(t, dir, "boss.example", "boss.example", "boss.example"), "a coordinator is no node")
}

// handshake makes a TLS handshake between a node and a coordinator that expects the node of that name.
func handshake(t *testing.T, dir, node, coordinator, means string) error {
	load := func(name string) (tls.Certificate, *x509.CertPool) {
		own, pool, err := LoadTLS(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"),
			filepath.Join(dir, "ca.crt"))
		require.NoError(t, err)
		return own, pool
	}
	serverCert, pool := load(node)
	clientCert, _ := load(coordinator)
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{serverCert}, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert})
	require.NoError(t, err)
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
		served <- err
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(),
		&tls.Config{Certificates: []tls.Certificate{clientCert}, RootCAs: pool, ServerName: means})
	if err != nil {
		<-served
		return err
	}
	defer conn.Close()
	return <-served
}

func TestCertsNeverOverwrite(t *testing.T) {
	dir := t.TempDir()
	_, err := runCerts(t, "node", "n1", "--dir", dir)
	require.ErrorContains(t, err, "make an authority first: probity certs init")
	_, err = runCerts(t, "init", "--dir", dir)
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	require.NoError(t, err)
	_, err = runCerts(t, "init", "--dir", dir)
	require.ErrorContains(t, err, "is there already")
	after, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	require.NoError(t, err)
	require.Equal(t, before, after)

	_, err = runCerts(t, "node", "n1", "--dir", dir)
	require.NoError(t, err)
	_, err = runCerts(t, "node", "n0", "n1", "--dir", dir)
	require.ErrorContains(t, err, "n1.crt is there already")
	require.NoFileExists(t, filepath.Join(dir, "n0.key"), "all or none")
	require.FileExists(t, filepath.Join(dir, "n1.key"))
}

func TestCertsRefuseBadNamesAndDays(t *testing.T) {
	dir := t.TempDir()
	_, err := runCerts(t, "init", "--dir", dir)
	require.NoError(t, err)
	for _, name := range []string{"", "Big", "a b", "../x", "-a", "a-", "a..b", "ca", "cluster", "ünode"} {
		_, err := runCerts(t, "node", "--dir", dir, "--", name)
		require.ErrorIs(t, err, console.ErrUsage, name)
	}
	_, err = runCerts(t, "node", "n1", "--dir", dir, "--days", "0")
	require.ErrorIs(t, err, console.ErrUsage)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 3)
}

func TestForeignCertificateIsRefused(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours, theirs} {
		_, err := runCerts(t, "init", "--dir", dir)
		require.NoError(t, err)
		_, err = runCerts(t, "node", "n1", "--dir", dir)
		require.NoError(t, err)
	}
	_, _, err := LoadTLS(filepath.Join(theirs, "n1.crt"), filepath.Join(theirs, "n1.key"),
		filepath.Join(ours, "ca.crt"))
	require.ErrorContains(t, err, "is not of authority")
	_, _, err = LoadTLS(filepath.Join(ours, "n1.crt"), filepath.Join(theirs, "n1.key"), filepath.Join(ours, "ca.crt"))
	require.ErrorContains(t, err, "does not match")
}

func TestGossipKeyRotates(t *testing.T) {
	dir := t.TempDir()
	_, err := runCerts(t, "init", "--dir", dir)
	require.NoError(t, err)
	keys := func() [][]byte {
		k, err := ReadKeys(filepath.Join(dir, KeyFile))
		require.NoError(t, err)
		return k
	}
	old := keys()
	require.Len(t, old, 1)
	_, err = runCerts(t, "key", "promote", "--dir", dir)
	require.ErrorContains(t, err, "add another first")
	_, err = runCerts(t, "key", "add", "--dir", dir)
	require.NoError(t, err)
	both := keys()
	require.Equal(t, old[0], both[0])
	require.Len(t, both, 2)
	_, err = runCerts(t, "key", "promote", "--dir", dir)
	require.NoError(t, err)
	require.Equal(t, [][]byte{both[1], both[0]}, keys())
	_, err = runCerts(t, "key", "prune", "--dir", dir)
	require.NoError(t, err)
	require.Equal(t, both[1:], keys())
	_, err = runCerts(t, "key", "prune", "--dir", dir)
	require.ErrorContains(t, err, "there is nothing to prune")
	info, err := os.Stat(filepath.Join(dir, KeyFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestNewKeyIsNotPrunedBeforeItIsPromoted: prune would take the file back to before the rotation.
func TestNewKeyIsNotPrunedBeforeItIsPromoted(t *testing.T) {
	dir := t.TempDir()
	_, err := runCerts(t, "init", "--dir", dir)
	require.NoError(t, err)
	for range 2 { // a second rotation is as the first
		_, err = runCerts(t, "key", "add", "--dir", dir)
		require.NoError(t, err)
		before, err := ReadKeys(filepath.Join(dir, KeyFile))
		require.NoError(t, err)
		_, err = runCerts(t, "key", "prune", "--dir", dir)
		require.ErrorContains(t, err, "promote it first: probity certs key promote")
		for _, round := range []string{"promote", "prune"} {
			_, err = runCerts(t, "key", round, "--dir", dir)
			require.NoError(t, err)
		}
		after, err := ReadKeys(filepath.Join(dir, KeyFile))
		require.NoError(t, err)
		require.Equal(t, before[1:], after)
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add("# a remark\nMDEyMzQ1Njc4OTAxMjM0NQ==\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseKeys(text)
		if err != nil {
			return
		}
		var again []byte
		for _, k := range keys {
			again = append(again, keyLine(k)...)
		}
		back, err := parseKeys(string(again))
		require.NoError(t, err)
		require.Equal(t, keys, back)
	})
}

// TestFleetSaysAtItsEndWhatIsNext: it makes all certificates, so that its last line is not that of init, and is the
// same when nothing is missing.
func TestFleetSaysAtItsEndWhatIsNext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	for range 2 {
		_, told, err := runCertsAsUser(t, "fleet", "hub", "p1", "p2", "--dir", dir)
		require.NoError(t, err)
		require.Equal(t, "All files of the cluster are in "+dir+". Next: copy ca.crt, cluster.key and a machine's own two files to each machine, then start probity coordinator on hub and probity prober on the others.\n",
			told)
	}
}
