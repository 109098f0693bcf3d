package service_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/csv"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"unicode/utf16"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/persona"
	"probity/bench/sim/world"
	"probity/internal/detector"
	"probity/tests/harness"
)

// TestStories runs the scripts of testdata/story: verify against a simulated internet, whose addresses are in the
// environment of the script: $VALID, $MISSING and $CATCHALL are mailboxes that exist, do not exist, and are at a
// catch-all domain. Files that a script cannot hold as text are in its folder.
func TestStories(t *testing.T) {
	detector.SpareByDay(t)
	server, err := sim.Start(t.Context(), world.Config{Seed: 1, Speedup: systemSpeedup, SMTPPort: world.AnyPort,
		DNS: netip.MustParseAddrPort("127.0.0.1:0")}, sim.Loopback{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	var overrides bytes.Buffer
	require.NoError(t, sim.WriteProviders(&overrides, systemSpeedup))
	vars := append(addressesFor(t, server.World), "PROBITY_DNS="+server.DNS.String(),
		"PROBITY_SMTP_PORT="+strconv.Itoa(int(server.SMTPPort)), "PROBITY_ALLOW_PRIVATE_TARGETS=true",
		"PROBITY_MAIL_FROM=probe@prober.example", "PROBITY_EGRESS=127.0.0.1=mx.prober.example")
	testscript.Run(t, testscript.Params{Dir: "testdata/story", Setup: func(e *testscript.Env) error {
		at := filepath.Join(e.WorkDir, "providers.toml")
		e.Vars = append(append(e.Vars, vars...), "PROBITY_PROVIDERS="+at)
		e.Setenv("GORACE", os.Getenv("GORACE")) // the race detector's options
		if err := os.WriteFile(at, overrides.Bytes(), 0o600); err != nil {
			return err
		}
		return writeOddFiles(e.WorkDir)
	}})
}

// addressesFor picks one address of each kind.
func addressesFor(t *testing.T, w *world.World) (vars []string) {
	want := map[persona.Outcome]string{
		{Status: "VALID"}: "VALID",
		{Status: "INVALID", Reason: "mailbox_not_found"}: "MISSING",
		{Status: "RISKY", Reason: "catch_all"}:           "CATCHALL",
	}
	column := -1
	harness.EachRow(t, w, 5000, func(cells []string) bool {
		if column < 0 {
			column = slices.Index(cells, "email")
			return true
		}
		truth := w.Truth(cells[column])
		if len(truth) == 1 && want[truth[0]] != "" {
			vars = append(vars, want[truth[0]]+"="+cells[column])
			delete(want, truth[0])
		}
		return len(want) > 0
	})
	require.Empty(t, want)
	return vars
}

const oddText = "email;name\nnot an address;Ann\nnot another;Bøb\n"

// writeOddFiles writes files that are not plain text.
func writeOddFiles(dir string) error {
	for name, make := range map[string]func() ([]byte, error){
		"utf16.csv":  func() ([]byte, error) { return inUTF16(oddText), nil },
		"packed.csv": func() ([]byte, error) { return inGzip(oddText) },
		"torn.gz": func() ([]byte, error) {
			b, err := inGzip(oddText)
			return b[:len(b)/2], err
		},
		"one.zip":    func() ([]byte, error) { return inZip(oddText) },
		"two.zip":    func() ([]byte, error) { return inZip(oddText, oddText) },
		"binary.csv": func() ([]byte, error) { return binaryBytes(), nil },
		"latin.csv":  func() ([]byte, error) { return []byte("email,name\nnot an address,B\xf8b\n"), nil },
		"long.csv": func() ([]byte, error) {
			return append([]byte("email,note\nann,"), bytes.Repeat([]byte("x"), 70_000)...), nil
		},
	} {
		b, err := make()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func inUTF16(text string) []byte {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return b
}

func inGzip(text string) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

func inZip(texts ...string) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i, text := range texts {
		f, err := w.Create(strconv.Itoa(i) + ".csv")
		if err != nil {
			return nil, err
		}
		if _, err := f.Write([]byte(text)); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// binaryBytes is a few pages with every byte value.
func binaryBytes() []byte {
	b := make([]byte, 8<<10)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// TestInterruptedVerifyResumes interrupts a verifying process as a user would, tries its progress folder with another
// list, and continues.
func TestInterruptedVerifyResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real processes; run without -short")
	}
	k := newKillTest(t)
	other := k.path("other.csv")
	require.NoError(t, os.WriteFile(other, []byte("email\nnot an address\n"), 0o600))
	internet, w := startInternet(t.Context(), t), newRecordingProxy(t, 500)
	result := k.path("result.csv")
	args := internet.verifyArgs(k.list, result, k.overrides)

	words, err := k.signalAtLimit(t.Context(), t, os.Interrupt, w, args)
	require.ErrorContains(t, err, "exit status 1")
	require.Contains(t, words, "interrupted; what is known is in "+result+progressFolder+
		", the same command goes on from there")
	require.NoFileExists(t, result)

	out, err := harness.Command(t.Context(), internet.verifyArgs(other, result, k.overrides)...).CombinedOutput()
	require.ErrorContains(t, err, "exit status 1")
	require.Contains(t, string(out), "holds the progress of another list")

	out, err = harness.Command(t.Context(), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "going on with "+k.list+" where it stopped")
	require.NoDirExists(t, result+progressFolder)
	whole, err := os.ReadFile(result)
	require.NoError(t, err)
	requireAnswered(t, whole)
}

// rowsOf parses a CSV file.
func rowsOf(t *testing.T, file []byte) [][]string {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	require.NoError(t, err)
	return rows
}
