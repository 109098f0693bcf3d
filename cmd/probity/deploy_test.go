package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/pelletier/go-toml/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"probity/internal/app"
	"probity/internal/console"
)

// deployDir is the folder that these tests read, from that of this package.
const deployDir = "../../deploy"

func deployFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deployDir, name))
	require.NoError(t, err)
	return string(data)
}

// document reads one YAML document.
func document(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v), text)
	return v
}

func TestDeployFilesParse(t *testing.T) {
	require.NoError(t, filepath.WalkDir(deployDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "templates") {
			return err
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		switch filepath.Ext(path) {
		case ".yaml", ".yml":
			for doc := range strings.SplitSeq(string(data), "\n---\n") {
				var v any
				require.NoError(t, yaml.Unmarshal([]byte(doc), &v), path)
			}
		case ".json":
			require.True(t, json.Valid(data), path)
		case ".toml":
			var v map[string]any
			require.NoError(t, toml.Unmarshal(data, &v), path)
		}
		return nil
	}))
}

// listening is a registry that records the names of all metrics, also of those without a value yet, and of those with
// one.
type listening struct {
	*prometheus.Registry
	names, filled map[string]bool
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (l listening) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 1000)
	c.Describe(descs)
	close(descs)
	for d := range descs {
		l.names[fqName.FindStringSubmatch(d.String())[1]] = true
	}
	return l.Registry.Register(c)
}

func (l listening) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := l.Register(c); err != nil {
			panic(err)
		}
	}
}

// fill records which metrics have a value.
func (l listening) fill(t *testing.T) {
	t.Helper()
	families, err := l.Gather()
	require.NoError(t, err)
	for _, f := range families {
		l.filled[f.GetName()] = true
	}
}

// exposed are the names of the metrics of a coordinator, a prober, and a server that is both: all of them, and those
// that have a value before anything is verified.
func exposed(t *testing.T) (names, filled map[string]bool) {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	con := &console.IO{Out: io.Discard, Err: io.Discard}
	require.Equal(t, 0, run(t.Context(), []string{"certs", "fleet", "hub", "p1", "--dir", at("papers")}, con))
	names, filled = map[string]bool{}, map[string]bool{}
	ports := []string{"--admin-listen", "127.0.0.1:0", "--dns", "127.0.0.1:1"}
	// with one the prober audits itself
	sender := []string{"--mail-from", "probe@prober.example", "--egress", "127.0.0.1=mx.prober.example"}
	member := append([]string{"--certs", at("papers"), "--cluster-listen", "127.0.0.1:0"}, ports...)
	for _, args := range [][]string{append([]string{"serve", "--data", at("s"), "--listen", "127.0.0.1:0"},
		append(ports, sender...)...),
		append([]string{"coordinator", "--name", "hub", "--data", at("h"), "--listen", "127.0.0.1:0"}, member...)} {
		registry := listening{prometheus.NewRegistry(), names, filled}
		c, p := parsed(t, args), app.Process{Log: con.Log(), Disk: con.Files(), Registry: registry}
		s := app.NewService(p, &c.Serve.ServeFlags)
		if args[0] == "coordinator" {
			var err error
			s, err = app.NewCoordinator(p, &c.Coordinator.CoordinatorFlags)
			require.NoError(t, err)
		}
		require.NoError(t, s.Open())
		registry.fill(t)
		require.NoError(t, s.Close())
	}
	c := parsed(t, append([]string{"prober", "--name", "p1", "--data", at("p"), "--node-listen", "127.0.0.1:0"},
		append(member, sender...)...))
	registry := listening{prometheus.NewRegistry(), names, filled}
	p, err := app.NewProber(app.Process{Log: con.Log(), Disk: con.Files(), Registry: registry}, &c.Prober.ProberFlags)
	require.NoError(t, err)
	require.NoError(t, p.Open())
	registry.fill(t)
	require.NoError(t, p.Close())
	return names, filled
}

// newCLI is the command line as main has it.
func newCLI(t *testing.T) (*cli, *kong.Kong) {
	t.Helper()
	var c cli
	k, err := kong.New(&c, kong.Name("probity"), kong.DefaultEnvars("PROBITY"),
		kong.Configuration(new(configFile).load), kong.BindTo(t.Context(), new(any)), kong.Bind(&console.IO{}))
	require.NoError(t, err)
	return &c, k
}

// parsed parses a valid command line.
func parsed(t *testing.T, args []string) *cli {
	t.Helper()
	c, k := newCLI(t)
	_, err := k.Parse(args)
	require.NoError(t, err, args)
	return c
}

var metricName = regexp.MustCompile(`\b(?:probity|process|go)_[a-z0-9_]+`)

// TestMetricsUsedByAlertsExist: an alert on a metric that is not exposed never fires.
func TestMetricsUsedByAlertsExist(t *testing.T) {
	known, _ := exposed(t)
	require.Greater(t, len(known), 50)
	for _, file := range []string{"prometheus/rules.yaml", "grafana/probity.json", "prometheus/rules_test.yaml"} {
		found := 0
		for _, name := range metricName.FindAllString(deployFile(t, file), -1) {
			found++
			require.True(t, known[name] || known[strings.TrimSuffix(name, "_bucket")], "%s: no process exposes %s",
				file, name)
		}
		require.Greater(t, found, 5, file)
	}
}

// TestNoPanelIsEmpty: before anything is verified, each panel of the dashboard shows a number, or a word for none.
func TestNoPanelIsEmpty(t *testing.T) {
	var board struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
			FieldConfig struct{ Defaults struct{ NoValue string } }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(deployFile(t, "grafana/probity.json")), &board))
	_, filled := exposed(t)
	row, checked := "", 0
	for _, p := range board.Panels {
		if p.Type == "row" {
			row = p.Title
			continue
		}
		if row == "Cluster, if there is one" || p.FieldConfig.Defaults.NoValue != "" {
			continue
		}
		for _, target := range p.Targets {
			checked++
			if strings.HasSuffix(target.Expr, " or on() vector(0)") {
				continue
			}
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				require.True(t, filled[strings.TrimSuffix(name, "_bucket")], "%s: %s has no value yet", p.Title, name)
			}
		}
	}
	require.Greater(t, checked, 20)
}

// TestEveryAlertHasARunbookSection: the operator on call finds what to do under the alert's own name.
func TestEveryAlertHasARunbookSection(t *testing.T) {
	runbook, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	var headings, alerts []string
	for _, h := range regexp.MustCompile(`(?m)^### (Probity\w+)$`).FindAllStringSubmatch(string(runbook), -1) {
		headings = append(headings, h[1])
	}
	for _, g := range document(t, deployFile(t, "prometheus/rules.yaml"))["groups"].([]any) {
		for _, r := range g.(map[string]any)["rules"].([]any) {
			rule := r.(map[string]any)
			name, notes := rule["alert"].(string), rule["annotations"].(map[string]any)
			alerts = append(alerts, name)
			require.Equal(t, "docs/operating.md#"+strings.ToLower(name), notes["runbook_url"], name)
			require.NotEmpty(t, notes["summary"], name)
			require.Contains(t, []any{"page", "ticket"}, rule["labels"].(map[string]any)["severity"], name)
		}
	}
	slices.Sort(headings)
	slices.Sort(alerts)
	require.Equal(t, alerts, headings)
}

// TestAlertsFire runs the test cases with promtool, if it is installed.
func TestAlertsFire(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: make charts parses the rules, but nobody plays their cases")
	}
	out, err := exec.CommandContext(t.Context(), tool, "test", "rules",
		filepath.Join(deployDir, "prometheus", "rules_test.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestRenderedChartIsCurrent: the rendered files that the tests read belong to the current chart.
func TestRenderedChartIsCurrent(t *testing.T) {
	for line := range strings.Lines(deployFile(t, "helm/rendered.sum")) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		require.Equal(t, sum, fmt.Sprintf("%x", sha256.Sum256([]byte(deployFile(t, "helm/"+name)))),
			"%s: run make charts", name)
	}
	files, err := filepath.Glob(filepath.Join(deployDir, "helm/probity/*/*"))
	require.NoError(t, err)
	for _, f := range files {
		rel, err := filepath.Rel(filepath.Join(deployDir, "helm"), f)
		require.NoError(t, err)
		require.Contains(t, deployFile(t, "helm/rendered.sum"), "  "+filepath.ToSlash(rel)+"\n")
	}
}
