package httpd

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestDocumentMembers(t *testing.T) {
	d, err := ParseDocument([]byte(` { "a" : "x\"}" , "b":[{"c":"]"}], "n":-12,"t":true ,"o":{"k":1}, "a":"last" }`))
	require.NoError(t, err)
	a, given, err := d.Text("a")
	require.NoError(t, err)
	require.True(t, given)
	require.Equal(t, "last", a)
	n, err := d.Number("n", 0, -20, 0)
	require.NoError(t, err)
	require.EqualValues(t, -12, n)
	v, err := d.Boolean("t", false)
	require.NoError(t, err)
	require.True(t, v)
	o, err := d.Object("o")
	require.NoError(t, err)
	k, err := o.Number("k", 0, 0, 9)
	require.NoError(t, err)
	require.EqualValues(t, 1, k)
}

func TestDocumentRefusals(t *testing.T) {
	for _, c := range []struct {
		body string
		kind Kind
	}{
		{"", Malformed}, {" \n", Malformed}, {"{", Malformed}, {`{"email":}`, Malformed}, {`{"email":"a"`, Malformed},
		{`{'email':'a'}`, Malformed},
		{`{"email":"a"}{}`, Malformed}, {"{\"email\":\"a\x00b\"}", Malformed}, {"{\"email\":\"a\xff\"}", Malformed},
		{"\xef\xbb\xbf{}", Malformed},
		{strings.Repeat("[", 33) + strings.Repeat("]", 33), Malformed},
		{strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), Malformed},
		{"[]", Unacceptable}, {`"a"`, Unacceptable}, {"null", Unacceptable}, {"12", Unacceptable},
	} {
		_, err := ParseDocument([]byte(c.body))
		r, ok := errors.AsType[*Refusal](err)
		require.True(t, ok, "%q: %v", c.body, err)
		require.Equal(t, c.kind, r.Kind, "%q: %s", c.body, r.Detail)
	}
}

func TestDocumentTypes(t *testing.T) {
	d, err := ParseDocument([]byte(`{"s":1,"u":"\ud800","r":"\ufffd","b":"true","n":1.5,"big":99999999999999999999,"z":null,"o":[]}`))
	require.NoError(t, err)
	for _, name := range []string{"s", "z", "u", "missing"} {
		_, err := d.RequiredText(name)
		require.ErrorContains(t, err, name)
	}
	_, err = d.RequiredText("r")
	require.NoError(t, err)
	_, err = d.Boolean("b", true)
	require.ErrorContains(t, err, "b must be true or false")
	for _, name := range []string{"n", "big", "z"} {
		_, err = d.Number(name, 0, 0, 10)
		require.ErrorContains(t, err, name)
	}
	_, err = d.Object("o")
	require.Error(t, err)
	d, err = ParseDocument([]byte(`{"a":5.0,"b":0.5e1,"c":"5","d":1e400}`))
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		n, err := d.Number(name, 0, 0, 10)
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
	}
	for _, name := range []string{"c", "d"} {
		_, err = d.Number(name, 0, 0, 10)
		require.ErrorContains(t, err, name)
	}
}

// TestListsOfObjects: unknown members are found in lists too, and a refusal says where.
func TestListsOfObjects(t *testing.T) {
	fields := &Fields{Names: []string{"list", "texts"},
		Nested: map[string]*Fields{"list": {Names: []string{"email", "at"}}}}
	d, err := ParseDocument([]byte(`{"list":[{"email":"a"},{"emial":"b"}],"texts":["x"]}`))
	require.NoError(t, err)
	require.EqualError(t, d.check(fields), `list[1]: "emial" is not known: did you mean email? Known are email, at.`)
	d, err = ParseDocument([]byte(`{"list":[{"email":"a"},{"email":7},8],"texts":["x"]}`))
	require.NoError(t, err)
	require.NoError(t, d.check(fields))
	var got []string
	read := func(object *Document) error {
		text, err := object.RequiredText("email")
		got = append(got, text)
		return err
	}
	require.EqualError(t, d.Objects("list", 3, read), "list[1]: email must be a string.")
	require.Equal(t, []string{"a", ""}, got)
	require.EqualError(t, d.Objects("list", 3, func(*Document) error { return nil }), "list[2]: it must be an object.")
	for _, wrong := range []string{"texts", "none"} {
		require.Error(t, d.Objects(wrong, 3, read))
	}
	require.ErrorContains(t, d.Objects("list", 2, read), "1 to 2 objects")
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"a":"x","b":[1,{"c":null}],"a":true}`))
	f.Add([]byte("{\"\\u0061\" :\t-1.5e3\n}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseDocument(b)
		var want map[string]json.RawMessage
		theirs := json.Unmarshal(b, &want)
		if err == nil && (theirs != nil || !utf8.Valid(b)) {
			t.Fatalf("%q was accepted: %v", b, theirs)
		}
		if err != nil {
			return
		}
		for name, raw := range want {
			if !bytes.Equal(bytes.TrimSpace(raw), d.get(name)) {
				t.Fatalf("%q: %s = %q, want %q", b, name, d.get(name), raw)
			}
		}
	})
}

func BenchmarkParseDocument(b *testing.B) {
	body := []byte(`{"email":"ann.example@alder-forge.example","details":true}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseDocument(body); err != nil {
			b.Fatal(err)
		}
	}
}
