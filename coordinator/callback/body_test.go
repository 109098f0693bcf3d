package callback

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pgregory.net/rapid"
	"probity/coordinator/outward"
)

func TestLineJoinerJoinsLinesToAnArray(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "\n": "", "1": "1", "1\n": "1", "1\n2\n3\n": "1,\n2,\n3", "1\n\n2": "1,\n2", "\n\n1\n": "1",
	} {
		var out bytes.Buffer
		n, err := (&lineJoiner{w: &out}).Write([]byte(in))
		require.NoError(t, err)
		require.Equal(t, len(in), n)
		require.Equal(t, want, out.String())
	}
}

// However lines are split into writes, they become the same array, which parses.
func TestLineJoinerIgnoresHowWritesAreSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.String(), 0, 8).Draw(t, "rows")
		var in []byte
		for _, r := range rows {
			one, _ := json.Marshal(r)
			in = append(append(in, one...), '\n')
		}
		var out bytes.Buffer
		j := &lineJoiner{w: &out}
		for len(in) > 0 {
			n := rapid.IntRange(1, len(in)).Draw(t, "cut")
			j.Write(in[:n])
			in = in[n:]
		}
		var got []string
		if err := json.Unmarshal([]byte("["+out.String()+"]"), &got); err != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(rows)
		if again, _ := json.Marshal(got); len(rows) > 0 && !bytes.Equal(want, again) {
			t.Fatalf("%s, want %s", again, want)
		}
	})
}

// FuzzURL: the head of a request to an accepted URL has exactly the lines that we wrote.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{receiverURL, "http://[::1]:80/%0d%0a", "https://bücher.example/?a=\"b\" c",
		"http://127.1/", "http://h/\u0085?\x7f"} {
		f.Add(seed)
	}
	s := &Sender{cfg: Config{Dialer: outward.New(outward.Config{})}}
	f.Fuzz(func(t *testing.T, raw string) {
		target, err := s.parseTarget(raw)
		if err != nil {
			require.ErrorIs(t, err, ErrURL)
			return
		}
		var head bytes.Buffer
		(&event{}).writeHead(&head, target)
		require.Equal(t, 3, strings.Count(head.String(), "\n"), "%q", head.String())
		require.Equal(t, 3, strings.Count(head.String(), "\r"), "%q", head.String())
		line, _, _ := strings.Cut(head.String(), "\r\n")
		require.Len(t, strings.Fields(line), 3, "%q", line)
	})
}
