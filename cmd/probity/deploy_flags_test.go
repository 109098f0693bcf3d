package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"probity/internal/certs"
)

// requireCommand requires a valid command line. Each key of its configuration file, if any, and each variable of the
// environment must be a flag of that command.
func requireCommand(t *testing.T, args []string, env ...string) {
	t.Helper()
	_, k := newCLI(t)
	got, err := k.Parse(args)
	require.NoError(t, err, args)
	flags, variables := map[string]bool{}, map[string]bool{}
	for _, f := range got.Flags() {
		flags[f.Name] = true
		for _, v := range f.Envs {
			variables[v] = true
		}
	}
	for _, name := range env {
		require.True(t, variables[name] || !strings.HasPrefix(name, "PROBITY_"), "%v has no variable %s", args, name)
	}
	at := slices.Index(args, "--config")
	if at < 0 {
		return
	}
	var keys map[string]any
	text, err := os.ReadFile(args[at+1])
	require.NoError(t, err)
	require.NoError(t, toml.Unmarshal(text, &keys))
	require.NotEmpty(t, keys)
	for key := range keys {
		require.True(t, flags[key], "%s: %s has no flag %s", args[at+1], args[0], key)
	}
}

func TestSystemdCommandsAreValid(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(deployDir, "systemd", "*.service"))
	require.NoError(t, err)
	require.Len(t, units, 4)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		unquoted := regexp.MustCompile(`"/var[^']*'`).ReplaceAllString(string(text), "copy") // what a shell makes of it
		for _, found := range regexp.MustCompile(`(?m)^ExecStart(?:Pre)?=(?:.*exec )?/usr/local/bin/probity (.+)$`).FindAllStringSubmatch(unquoted, -1) {
			args := strings.Fields(strings.ReplaceAll(found[1], "/etc/probity/",
				filepath.Join(deployDir, "systemd")+"/"))
			requireCommand(t, args)
		}
	}
}

func TestContainerCommandsAreValid(t *testing.T) {
	text := deployFile(t, "Containerfile")
	env := regexp.MustCompile(`PROBITY_\w+`).FindAllString(text, -1)
	checked := 0
	for _, found := range regexp.MustCompile(`(?m)CMD (\[.+\])$`).FindAllStringSubmatch(text, -1) {
		var args []string
		require.NoError(t, json.Unmarshal([]byte(found[1]), &args))
		if args[0] == "/usr/local/bin/probity" { // of the health check, which has no entrypoint
			requireCommand(t, args[1:])
		} else {
			requireCommand(t, args)
		}
		checked++
	}
	require.Equal(t, 2, checked)
	require.Subset(t, []string{"PROBITY_DATA", "PROBITY_CERTS"}, env)
	require.Contains(t, text, "\nUSER 65532:65532\n", "not root")
	require.Contains(t, text, "CGO_ENABLED=0")
}

// pinnedImage is an image of one version, or of one digest.
const pinnedImage = `^[a-z0-9./-]+(:v?[0-9]+\.[0-9]+\.[0-9]+|(:[a-z0-9.-]+)?@sha256:[0-9a-f]{64})$`

func TestComposeCommandsAreValid(t *testing.T) {
	services := document(t, deployFile(t, "compose/compose.yaml"))["services"].(map[string]any)
	require.Subset(t, keysOf(services), []string{"hub", "p1", "p2", "p3", "resolver", "prometheus", "grafana"})
	checked := 0
	for name, s := range services {
		service := s.(map[string]any)
		for _, v := range stringsOf(service["volumes"]) {
			if from, _, ok := strings.Cut(v, ":"); ok && strings.HasPrefix(from, ".") {
				_, err := os.Stat(filepath.Join(deployDir, "compose", from))
				require.NoError(t, err, name)
			}
		}
		if service["image"] != "probity" {
			require.Regexp(t, pinnedImage, service["image"], name)
			continue
		}
		checked++
		env, _ := service["environment"].(map[string]any)
		requireCommand(t, stringsOf(service["command"]), keysOf(env)...)
		require.Equal(t, true, service["read_only"], name)
		require.Equal(t, []string{"ALL"}, stringsOf(service["cap_drop"]), name)
	}
	require.Equal(t, 5, checked)
}

func keysOf(m map[string]any) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func stringsOf(v any) (list []string) {
	items, _ := v.([]any)
	for _, i := range items {
		list = append(list, i.(string))
	}
	return list
}

// TestChartCommandsAreValid checks the rendered chart with the command line: arguments, configuration files, probes.
func TestChartCommandsAreValid(t *testing.T) {
	conf := t.TempDir()
	var sets []map[string]any
	kinds := map[string]int{}
	for doc := range strings.SplitSeq(deployFile(t, "helm/rendered/full.yaml"), "\n---\n") {
		d := document(t, doc)
		kinds[d["kind"].(string)]++
		switch d["kind"] {
		case "ConfigMap":
			for name, text := range d["data"].(map[string]any) {
				moved := strings.ReplaceAll(text.(string), "/etc/probity-conf/", conf+"/")
				require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(moved), 0o600))
			}
		case "StatefulSet":
			sets = append(sets, d)
		}
	}
	require.Equal(t, map[string]int{"ConfigMap": 1, "StatefulSet": 2, "PodDisruptionBudget": 1, "NetworkPolicy": 2,
		"Service": 2, "Ingress": 1, "ServiceMonitor": 1, "PrometheusRule": 1}, kinds)
	for _, set := range sets {
		pod := set["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		c := pod["containers"].([]any)[0].(map[string]any)
		name := set["metadata"].(map[string]any)["name"].(string) + "-0"
		var args []string
		for _, a := range stringsOf(c["args"]) {
			a = strings.NewReplacer("$(POD_NAME)", name, "$(POD_IP)", "192.0.2.1", "/etc/probity-conf/",
				conf+"/").Replace(a)
			args = append(args, a)
		}
		requireCommand(t, args)
		require.NoError(t, certs.ValidName(name), "it is the name in a certificate")
		for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
			requireCommand(t, stringsOf(c[probe].(map[string]any)["exec"].(map[string]any)["command"])[1:])
		}
		security := c["securityContext"].(map[string]any)
		require.Equal(t, true, security["readOnlyRootFilesystem"])
		require.Equal(t, false, security["allowPrivilegeEscalation"])
		require.Equal(t, true, pod["securityContext"].(map[string]any)["runAsNonRoot"])
	}
}

var (
	shellBlock     = regexp.MustCompile("(?s)```sh\n(.*?)```")
	commandPattern = regexp.MustCompile(`(?:^|[\s(|;&])(?:bin/|\./bin/|/usr/local/bin/)?probity ([a-z][^|;&)#\n]*)`)
)

// TestDocumentedCommandsAreValid: each command in the documentation exists and has the flags shown.
func TestDocumentedCommandsAreValid(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, name := range []string{"quickstart.md", "api.md", "fleet.md", "operating.md", "security.md", "politeness.md",
		"simulator.md", "benchmarks.md"} {
		require.Contains(t, files, filepath.Join("../../docs", name))
	}
	files = append(files, "../../README.md", "../../deploy/rehearse.sh",
		"../../deploy/helm/probity/templates/NOTES.txt")
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(data)
		if filepath.Ext(file) == ".md" {
			blocks := ""
			for _, b := range shellBlock.FindAllStringSubmatch(text, -1) {
				blocks += b[1]
			}
			text = blocks
		}
		text = strings.ReplaceAll(text, "\\\n", " ")
		for line := range strings.Lines(text) {
			for _, found := range commandPattern.FindAllStringSubmatch(line, -1) {
				requireKnownFlags(t, file, strings.Fields(found[1]))
			}
		}
	}
}

// requireKnownFlags follows a command line down the tree of commands, and requires that each flag exists.
func requireKnownFlags(t *testing.T, file string, words []string) {
	t.Helper()
	_, k := newCLI(t)
	node := k.Model.Node
	for _, w := range words {
		if name, is := strings.CutPrefix(w, "--"); is {
			name, _, _ = strings.Cut(name, "=")
			require.True(t, hasFlag(node, name), "%s: probity %s has no flag --%s", file, node.Path(), name)
			continue
		}
		for _, child := range node.Children {
			if child.Name == w && child.Type == kong.CommandNode {
				node = child
				break
			}
		}
	}
	require.NotEqual(t, k.Model.Node, node, "%s: probity %v is no command", file, words)
}

func hasFlag(node *kong.Node, name string) bool {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name || f.Tag.Negatable != "" && "no-"+f.Name == name {
				return true
			}
		}
	}
	return name == "help"
}
