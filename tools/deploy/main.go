// Command deploy checks the files of deploy/ with the programs that read them: Helm's own linter and renderer, the
// Kubernetes types, and Prometheus's own parsers of rules and queries. It is a module of its own, since its dependencies are large.
//
//	go run . ../../deploy          checks, and reports rendered files that differ
//	go run . -write ../../deploy   writes the rendered files and their sums
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

func main() {
	write := flag.Bool("write", false, "write the rendered files")
	flag.Parse()
	dir := flag.Arg(0)
	err := errors.Join(checkRules(filepath.Join(dir, "prometheus", "rules.yaml")), checkDashboard(filepath.Join(dir, "grafana", "probity.json")),
		checkChart(filepath.Join(dir, "helm"), *write))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("deploy: chart, rules and dashboard are right")
}

// checkRules parses the alert rules, templates and expressions included.
func checkRules(path string) error {
	_, errs := rulefmt.ParseFile(path, false, model.UTF8Validation)
	return errors.Join(errs...)
}

// checkDashboard parses every query of the dashboard.
func checkDashboard(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var errs []error
	for _, p := range board.Panels {
		for _, t := range p.Targets {
			if _, err := parser.ParseExpr(strings.ReplaceAll(t.Expr, "$__rate_interval", "1m")); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", path, p.Title, err))
			}
		}
	}
	return errors.Join(errs...)
}

// checkChart lints the chart and renders it with its own values and with every switch on.
func checkChart(dir string, write bool) error {
	chart, rendered := filepath.Join(dir, "probity"), filepath.Join(dir, "rendered")
	// Helm reads no file outside of a chart.
	rules, err := os.ReadFile(filepath.Join(dir, "..", "prometheus", "rules.yaml"))
	if err != nil {
		return err
	}
	if err := keep(filepath.Join(chart, "rules.yaml"), rules, write); err != nil {
		return err
	}
	full, err := chartutil.ReadValuesFile(filepath.Join(rendered, "full.values.yaml"))
	if err != nil {
		return err
	}
	var errs []error
	for name, values := range map[string]map[string]any{"default": {}, "full": full.AsMap()} {
		for _, m := range lint.AllWithKubeVersion(chart, values, "trial", nil).Messages {
			if m.Severity >= support.WarningSev {
				errs = append(errs, fmt.Errorf("lint with %s values: %w", name, m))
			}
		}
		text, err := render(chart, values)
		if err == nil {
			err = decode(text)
		}
		if err == nil {
			err = keep(filepath.Join(rendered, name+".yaml"), text, write)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s values: %w", name, err))
		}
	}
	errs = append(errs, refusesTypos(chart, full.AsMap())...)
	sums, err := sumsOf(dir)
	if err != nil {
		return err
	}
	return errors.Join(append(errs, keep(filepath.Join(dir, "rendered.sum"), sums, write))...)
}

// refusesTypos reports names of values that the chart would ignore: each name of the values at every depth, misspelt,
// must be refused by values.schema.json. Maps whose names are the operator's own are left out.
func refusesTypos(chart string, values map[string]any) (errs []error) {
	loaded, err := loader.Load(chart)
	if err != nil {
		return []error{err}
	}
	own := map[string]bool{"labels": true, "annotations": true, "nodeSelector": true, "requests": true, "limits": true,
		"global": true}
	all, err := chartutil.CoalesceValues(loaded, values)
	if err != nil {
		return []error{err}
	}
	var misspell func(path []string, at map[string]any)
	misspell = func(path []string, at map[string]any) {
		for _, name := range sorted(at) {
			inner, isMap := at[name].(map[string]any)
			if isMap && !own[name] && len(inner) > 0 {
				misspell(append(slices.Clone(path), name), inner)
			}
			at[name+"x"] = at[name]
			if err := chartutil.ValidateAgainstSchema(loaded, all); err == nil {
				errs = append(errs, fmt.Errorf("%s: values.schema.json accepts %sx", strings.Join(path, "."), name))
			}
			delete(at, name+"x")
		}
	}
	misspell(nil, all.AsMap())
	return errs
}

// render returns the output of helm template.
func render(dir string, values map[string]any) ([]byte, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "trial", Namespace: "mail", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, name := range sorted(files) {
		if strings.TrimSpace(files[name]) != "" && strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, strings.TrimSpace(files[name]))
		}
	}
	return out.Bytes(), nil
}

func sorted[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// decode decodes each document as its kind, and refuses fields that the kind does not have.
func decode(text []byte) error {
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), monitoring.AddToScheme(known)); err != nil {
		return err
	}
	codec := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	var errs []error
	for _, doc := range strings.Split(string(text), "\n---\n") {
		if lines := strings.TrimSpace(strings.TrimPrefix(doc, "---")); lines == "" || onlyRemarks(lines) {
			continue
		}
		body, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err == nil {
			_, _, err = codec.Decode(body, nil, nil)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%w in:\n%.300s", err, doc))
		}
	}
	return errors.Join(errs...)
}

func onlyRemarks(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			return false
		}
	}
	return true
}

// keep writes a file, or reports that its content differs.
func keep(path string, text []byte, write bool) error {
	if write {
		return os.WriteFile(path, text, 0o644)
	}
	had, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(had, text) {
		err = fmt.Errorf("%s is not what the chart gives: run make charts", path)
	}
	return err
}

// sumsOf are the checksums of the chart and of its rendered files, by which a test without Helm sees that they belong together.
func sumsOf(dir string) ([]byte, error) {
	var out bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".sum" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(name))
		return err
	})
	return out.Bytes(), err
}
