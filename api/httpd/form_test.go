package httpd

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sampleForm is a form with an option, a file, and another option.
func sampleForm(t testing.TB) (body, contentType string) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	require.NoError(t, m.WriteField("name", "x"))
	file, err := m.CreateFormFile("file", "l.csv")
	require.NoError(t, err)
	_, err = io.WriteString(file, "email\na@b.c\n")
	require.NoError(t, err)
	require.NoError(t, m.WriteField("max_age", "5"))
	require.NoError(t, m.Close())
	return b.String(), m.FormDataContentType()
}

// formOptions are the parts that the forms of tests may have.
var formOptions = []string{"name", "max_age"}

func FuzzForm(f *testing.F) {
	whole, kind := sampleForm(f)
	f.Add(whole, kind)
	f.Add(whole[:100], kind)
	f.Add("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--", "multipart/form-data; boundary=b")
	f.Fuzz(func(t *testing.T, body, kind string) {
		form := newForm(strings.NewReader(body), kind, formOptions, func(name, _ string) error {
			require.True(t, slices.Contains(formOptions, name), "%q", name)
			return nil
		})
		for {
			p, err := form.Next()
			if err != nil {
				r, ok := errors.AsType[*Refusal](err)
				require.True(t, ok, "%v", err)
				require.NotEqual(t, Failed, r.Kind, "%v", err)
				return
			}
			if p == nil {
				require.Contains(t, body, string(form.lastBoundary), "a form without an end is not whole")
				return
			}
			if _, err := io.Copy(io.Discard, FormFile(p)); err != nil {
				return
			}
		}
	})
}
