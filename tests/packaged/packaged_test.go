//go:build linux

package packaged

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/score"
	"probity/bench/sim/world"
	"probity/tests/harness"
)

const (
	older, newer = "/root/v1.0.0.deb", "/root/v1.0.1.deb"

	proberAddress = "10.0.0.1"
	mailNetwork   = "10.78.0.0/16" // of the simulated internet; its first address is the name server's
	mailDNS       = "10.78.0.1:53"
	// speedup is that of the simulated internet: a list of rows takes some ten seconds.
	speedup = "360"
	rows    = 2000

	keyFile = "/var/lib/probity/first.key"
	server  = "http://127.0.0.1:8080"
)

// configuration is what an operator writes into serve.toml, and where the simulated internet is.
const configuration = `
data = "/var/lib/probity"
listen = "127.0.0.1:8080"
admin-listen = "127.0.0.1:9090"
mail-from = "probe@example.org"
egress = ["` + proberAddress + `=mx1.example.org"]
first-key = "` + keyFile + `"
dns = ["` + mailDNS + `"]
allow-private-targets = true
providers = "/etc/probity/providers.toml"
`

// TestPackageOnDebian goes through the life of a package: installed, configured, started, upgraded while it verifies a
// list, and removed.
func TestPackageOnDebian(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	prepareNetwork(t)
	t.Run("into an image without proc and systemd", func(t *testing.T) {
		d := newDebian(t)
		d.do(t, "dpkg", "--install", older)
		require.Contains(t, d.do(t, "getent", "passwd", "probity"), ":/var/lib/probity:")
		d.boot(t)
		requireFolders(t, d)
	})
	t.Run("on a running system", func(t *testing.T) {
		d := newDebian(t)
		d.boot(t)
		live(t, d)
	})
}

func prepareNetwork(t *testing.T) {
	t.Helper()
	run(t, "", "mount", "--make-rprivate", "/")
	run(t, "", "mount", "-t", "proc", "proc", "/proc")
	run(t, "", "ip", "link", "set", "lo", "up")
	run(t, "", "ip", "addr", "add", proberAddress+"/32", "dev", "lo")
	run(t, "", "ip", "route", "add", "local", mailNetwork, "dev", "lo")
}

// live installs, uses, upgrades and removes the package on a running system.
func live(t *testing.T, d *debian) {
	before := d.files(t)
	d.do(t, "apt-get", "install", "--yes", older)
	requireFolders(t, d)
	units := d.units(t)
	require.Len(t, units, 5)
	require.Empty(t, d.do(t, append([]string{"systemd-analyze", "verify", "--man=no"}, units...)...))
	require.Equal(t, "inactive\n", d.do(t, "sh", "-c", "systemctl is-active probity || :"))
	require.Contains(t, d.do(t, "probity", "version"), "probity v1.0.0 ")

	d.write(t, "/etc/probity/serve.toml", configuration)
	d.write(t, "/etc/probity/providers.toml", d.do(t, "probity", "sim", "providers", "--speedup", speedup))
	d.do(t, "systemd-run", "--unit=internet", "--service-type=exec", "--property=LimitNOFILE=65536", "/usr/bin/probity",
		"sim", "serve", "--speedup", speedup, "--network", mailNetwork, "--smtp-port", "25", "--dns", mailDNS)
	d.do(t, "systemctl", "enable", "--now", "probity")
	require.Equal(t, "probity\n", d.do(t, "sh", "-c", "ps -o user= -p $(systemctl show -P MainPID probity)"))
	a := account{key: strings.TrimSpace(d.do(t, "cat", keyFile))}

	w := world.New(world.Config{Seed: 1})
	list := []byte(d.do(t, "probity", "sim", "list", "--rows", fmt.Sprint(rows)))
	require.Equal(t, "VALID", a.verify(t, validAddress(t, w, list))["status"])

	job := a.upload(t, list)
	require.Eventually(t, func() bool { return a.progress(t, job) > rows/10 }, time.Minute, 20*time.Millisecond)
	d.do(t, "apt-get", "install", "--yes", newer)
	require.Less(t, a.progress(t, job), rows, "the job ended before the upgrade")
	require.Contains(t, a.get(t, "http://127.0.0.1:9090/readyz"), `"version":"v1.0.1"`)
	require.Equal(t, configuration, d.do(t, "cat", "/etc/probity/serve.toml"))
	require.Eventually(t, func() bool { return a.status(t, job) == "completed" }, 5*time.Minute, 100*time.Millisecond)
	harness.RequireCorrect(t, w, list, []byte(a.get(t, server+"/v1/verify/bulk/"+job+"/results")))

	d.do(t, "systemctl", "stop", "internet")
	d.do(t, "apt-get", "remove", "--yes", "probity")
	require.Equal(t, "inactive\n", d.do(t, "sh", "-c", "systemctl is-active probity || :"))
	var left []string
	for _, file := range d.files(t) {
		if !slices.Contains(before, file) {
			left = append(left, file)
		}
	}
	require.Contains(t, left, "/etc/probity/serve.toml")
	require.Contains(t, left, keyFile)
	for _, file := range left {
		ours := strings.HasPrefix(file, "/var/lib/probity") || strings.HasPrefix(file, "/etc/probity") ||
			file == "/var/backups/probity"
		bookkeeping := strings.HasPrefix(file, "/var/lib/dpkg/") || strings.HasPrefix(file, "/var/lib/apt/") ||
			strings.HasPrefix(file, "/var/log/") || strings.HasPrefix(file, "/var/cache/") ||
			strings.HasPrefix(file, "/var/lib/systemd/") || strings.HasPrefix(file, "/var/tmp/systemd-private-") ||
			strings.HasPrefix(file, "/etc/.pwd.lock") || strings.HasSuffix(file, "-") // passwd- and others
		require.True(t, ours || bookkeeping, "%s is left", file)
	}
}

// files are the paths of all files and folders of the system's own file system.
func (d *debian) files(t *testing.T) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(d.root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all = append(all, strings.TrimPrefix(path, d.root))
		return nil
	}))
	return all
}

// units are the paths of the package's units.
func (d *debian) units(t *testing.T) (paths []string) {
	t.Helper()
	for path := range strings.Lines(d.do(t, "dpkg", "--listfiles", "probity")) {
		path = strings.TrimSpace(path)
		if strings.HasPrefix(path, "/usr/lib/systemd/system/") {
			paths = append(paths, path)
		}
	}
	return paths
}

func (d *debian) write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(d.root, path), []byte(content), 0o644))
}

// requireFolders requires that folders with secrets are open to their owners alone.
func requireFolders(t *testing.T, d *debian) {
	t.Helper()
	require.Equal(t, "root:probity 750 /etc/probity\nprobity:probity 700 /var/backups/probity\n",
		d.do(t, "stat", "--format=%U:%G %a %n", "/etc/probity", "/var/backups/probity"))
}

// account is a customer's, with a key.
type account struct{ key string }

func (a account) do(t *testing.T, r *http.Request) string {
	t.Helper()
	r.Header.Set("Authorization", "Bearer "+a.key)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Less(t, answer.StatusCode, 300, "%s %s: %s", r.Method, r.URL, body)
	return string(body)
}

func (a account) get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return a.do(t, r)
}

func (a account) post(t *testing.T, path, contentType string, body io.Reader) (answer map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+path, body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", contentType)
	require.NoError(t, json.Unmarshal([]byte(a.do(t, r)), &answer))
	return answer
}

func (a account) verify(t *testing.T, address string) map[string]any {
	t.Helper()
	return a.post(t, "/v1/verify/single", "application/json", strings.NewReader(fmt.Sprintf(`{"email":%q}`, address)))
}

func (a account) upload(t *testing.T, list []byte) (job string) {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "list.csv")
	require.NoError(t, err)
	_, err = part.Write(list)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return a.post(t, "/v1/verify/bulk", w.FormDataContentType(), &form)["job_id"].(string)
}

func (a account) record(t *testing.T, job string) (record map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.get(t, server+"/v1/verify/bulk/"+job)), &record))
	return record
}

func (a account) status(t *testing.T, job string) string {
	t.Helper()
	return a.record(t, job)["status"].(string)
}

// progress is how many rows of a job are done.
func (a account) progress(t *testing.T, job string) int {
	t.Helper()
	done, _ := a.record(t, job)["processed"].(float64)
	return int(done)
}

// validAddress is the first address of a list that has a mailbox which nothing hides.
func validAddress(t *testing.T, w *world.World, list []byte) string {
	t.Helper()
	var truth bytes.Buffer
	require.NoError(t, score.WriteTruth(&truth, w, bytes.NewReader(list)))
	rows, err := csv.NewReader(&truth).ReadAll()
	require.NoError(t, err)
	email, status := slices.Index(rows[0], "email"), slices.Index(rows[0], "expected_status")
	valid := slices.IndexFunc(rows, func(row []string) bool { return row[status] == "VALID" })
	require.Positive(t, valid)
	return rows[valid][email]
}
