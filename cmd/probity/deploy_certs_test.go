package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPodMountsOnlyItsOwnCertificate: of the secret with the certificates of all members, each container of the chart
// sees the authority's certificate, the cluster key, and the pair with its own name.
func TestPodMountsOnlyItsOwnCertificate(t *testing.T) {
	want := map[string]string{"ca.crt": "ca.crt", "cluster.key": "cluster.key", "node.crt": "$(POD_NAME).crt",
		"node.key": "$(POD_NAME).key"}
	sets := 0
	for doc := range strings.SplitSeq(deployFile(t, "helm/rendered/full.yaml"), "\n---\n") {
		set := document(t, doc)
		if set["kind"] != "StatefulSet" {
			continue
		}
		sets++
		pod := set["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		for _, c := range pod["containers"].([]any) {
			got := map[string]string{}
			for _, m := range c.(map[string]any)["volumeMounts"].([]any) {
				mount := m.(map[string]any)
				if mount["name"] != "papers" {
					continue
				}
				sub, _ := mount["subPath"].(string)
				own, _ := mount["subPathExpr"].(string)
				require.NotEmpty(t, sub+own, "the whole secret is mounted at %s", mount["mountPath"])
				got[strings.TrimPrefix(mount["mountPath"].(string), "/etc/probity/")] = sub + own
			}
			require.Equal(t, want, got)
		}
	}
	require.Equal(t, 2, sets, "coordinator and probers")
}
