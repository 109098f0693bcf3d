package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

func TestClusterShowsQuarantines(t *testing.T) {
	answer := `{"coordinator":"hub","nodes":[],"quarantines":[
		{"node":"n1","source":"192.0.2.1","receiver":"Outlook.com","route":"outlook","reply":"550 5.7.1 blocked",
			"rule":"outlook/blocked","until":"2026-03-01T12:00:00Z"},
		{"node":"n2","source":"192.0.2.2","receiver":"","route":"","reply":"","rule":"","until":"2026-03-01T13:00:00Z"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte(answer))
	}))
	defer server.Close()
	show := func() string {
		var out bytes.Buffer
		c := clusterCmd{Admin: strings.TrimPrefix(server.URL, "http://"), Quarantines: true}
		require.NoError(t, c.Run(t.Context(), &console.IO{Out: &out, Err: &bytes.Buffer{}}))
		return out.String()
	}
	shown := show()
	for _, want := range []string{"192.0.2.1  n1    Outlook.com", "outlook/blocked  550 5.7.1 blocked",
		"192.0.2.2  n2    (all)"} {
		require.Contains(t, shown, want)
	}
	answer = `{"coordinator":"hub","nodes":[]}`
	require.Equal(t, "no quarantines\n", show())
}
