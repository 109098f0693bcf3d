package bucket

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlacesAreRead(t *testing.T) {
	for raw, want := range map[string]Place{
		"s3://results": {Bucket: "results"}, "s3://results/": {Bucket: "results"},
		"s3://my.results-1/a/b c/é/": {Bucket: "my.results-1", Prefix: "a/b c/é"},
	} {
		p, err := ParsePlace(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, p)
	}
	for _, raw := range []string{"", "results", "https://results/a", "S3://results", "s3://", "s3:///a", "s3://ab",
		"s3://Results", "s3://127.0.0.1", "s3://res..ults", "s3://-results", "s3://results?x", "s3://user@results/a",
		"s3://results:80/a", "s3://results/../other", "s3://results/a/./b", "s3://results//a", "s3://results/a?b",
		"s3://results/a#b", `s3://results/a\b`, "s3://results/a\x00", "s3://results/\xff",
		"s3://results/" + strings.Repeat("a", maxURL)} {
		_, err := ParsePlace(raw)
		require.Error(t, err, raw)
	}
}

// TestPlacesAreAllowed: a place in the list allows what is in it, and an account's is for that account only.
func TestPlacesAreAllowed(t *testing.T) {
	var list []Allowed
	for _, s := range []string{"s3://shared/out", "Ann@example.org=s3://ann-results",
		"boss@example.org=s3://boss-results",
		"a=b@example.org=s3://odd-name/x"} {
		a, err := ParseAllowed(s)
		require.NoError(t, err)
		list = append(list, a)
	}
	for _, c := range []struct {
		email, to string
		want      bool
	}{
		{"ann@example.org", "s3://shared/out", true}, {"bob@example.org", "s3://shared/out/a", true},
		{"bob@example.org", "s3://shared/outside", false}, {"bob@example.org", "s3://shared", false},
		{"bob@example.org", "s3://shared2/out", false}, {"ann@example.org", "s3://ann-results/any", true},
		{"bob@example.org", "s3://ann-results/any", false}, {"", "s3://ann-results", false},
		{"a=b@example.org", "s3://odd-name/x/y", true}, {"b@example.org", "s3://odd-name/x", false},
		{"boſs@example.org", "s3://boss-results", false}, // its long s is another account
	} {
		to, err := ParsePlace(c.to)
		require.NoError(t, err)
		require.Equal(t, c.want, allows(list, c.email, to), "%s %s", c.email, c.to)
	}
	for _, s := range []string{"ann=s3://results", "=s3://results", "ann@example.org=", "ann@example.org=https://x"} {
		_, err := ParseAllowed(s)
		require.Error(t, err, s)
	}
}

// TestLongPlaces: every results_to that Check accepts has room for the name of an object.
func TestLongPlaces(t *testing.T) {
	all := func(c *Config) { c.Allowed = []Allowed{{Place: Place{Bucket: "results"}}} }
	runTest(t, all, func(t *testing.T, w *testEnv) {
		id := strings.Repeat("f", 32)
		for n := maxURL - 100; n <= maxURL; n++ {
			raw := "s3://results/" + strings.Repeat("a", n-len("s3://results/"))
			err := w.sender.Check("ann@example.com", raw)
			if n > maxURL-41 {
				require.ErrorContains(t, err, "at most 559 bytes")
				continue
			}
			require.NoError(t, err)
			_, err = ParsePlace(ObjectURL(id, raw))
			require.NoError(t, err)
		}
	})
}

func TestEndpoints(t *testing.T) {
	for _, raw := range []string{"https://s3.example.com", "http://minio:9000/", "https://[2001:db8::1]:9000"} {
		_, err := CheckEndpoint(raw)
		require.NoError(t, err, raw)
	}
	for _, raw := range []string{"", "s3.example.com", "ftp://s3.example.com", "https://s3.example.com/bucket",
		"https://key:secret@s3.example.com", "https://s3.example.com?x=1"} {
		_, err := CheckEndpoint(raw)
		require.Error(t, err, raw)
	}
}

// FuzzParsePlace: what is read has one form, and an object in it is in it.
func FuzzParsePlace(f *testing.F) {
	f.Add("s3://results/a/b")
	f.Add("s3://results/")
	f.Add("s3://127.0.0.1/..")
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := ParsePlace(raw)
		if err != nil {
			return
		}
		again, err := ParsePlace(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.True(t, p.contains(p.object("j1.csv.zst")))
		require.NotContains(t, "/"+p.Prefix+"/", "/../")
		_, err = ParseAllowed(raw)
		require.NoError(t, err)
	})
}
