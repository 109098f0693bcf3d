package httpd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzPlainDocument compares readPlain with fullDocument.
func FuzzPlainDocument(f *testing.F) {
	for _, s := range []string{`{"email":"ann@example.com"}`, ` { "email" : "a" , "timeout":12, "details":true,"check_smtp" : false } `, `{"a":"x","a":"y"}`, `{"":""}`,
		`{}`, `{"a":0}`, `{"a":01}`, `{"a":-1}`, `{"a":1.5}`, `{"a":1e3}`, `{"a":truex}`, `{"a":true`, `{"a":"\u0041"}`, `{"a":"é"}`, `{"a":"b",}`, `{"a":"b"}{}`, `{"a":[1]}`, `{"a":1234567890}`, `{1:2}`, `{"a"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if short := new(Document); short.readPlain(b) {
			long, err := fullDocument(b)
			require.NoError(t, err)
			require.Equal(t, long.members, short.members)
		}
	})
}

func TestPlainDocumentParsesCommonBodies(t *testing.T) {
	for _, s := range []string{`{"email":"ann@example.com"}`, ` { "email" : "a" , "timeout":12, "details":true,"check_smtp" : false } `, `{"a":1,"b":2,"c":3,"d":4,"e":5}`} {
		require.True(t, new(Document).readPlain([]byte(s)), s)
	}
}

func BenchmarkParseDocument(b *testing.B) {
	body := []byte(`{"email":"ann.example@alder-forge.example","details":true}`)
	for name, parse := range map[string]func([]byte) (*Document, error){"plain": new(Document).parse, "full": fullDocument} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
