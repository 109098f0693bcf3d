package clients

import (
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPythonNamesAnyFile: whatever the name of a list is, its upload has the parts that it should have, and the list is
// in one of them.
func TestPythonNamesAnyFile(t *testing.T) {
	need(t, "python3")
	for name, want := range map[string]string{
		"list.csv":                               "list.csv",
		"Käufer.csv":                             "Käufer.csv",
		`a"; name="b\.csv`:                       `a_; name=_b_.csv`,
		"a\r\nContent-Type: text\r\n\r\nb\n.csv": "a__Content-Type: text____b_.csv",
		"a\xffb.csv":                             "a?b.csv",
	} {
		t.Run(want, func(t *testing.T) {
			list := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(list, []byte("email\nann@example.com\n"), 0o600))
			var form *multipart.Form
			var text []byte
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ParseMultipartForm(1<<20) == nil {
					form = r.MultipartForm
					for _, files := range form.File {
						if f, err := files[0].Open(); err == nil {
							text, _ = io.ReadAll(f)
							_ = f.Close()
						}
					}
				}
				_, _ = io.WriteString(w, `{"job_id":"j1"}`)
			}))
			defer server.Close()
			cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c",
				"import sys, probity; print(probity.Client(sys.argv[1], 'k').upload(sys.argv[2], details='true'))",
				server.URL, list)
			cmd.Dir = "../../clients/python"
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.NotNil(t, form)
			require.Equal(t, map[string][]string{"details": {"true"}}, form.Value)
			require.Len(t, form.File, 1)
			file := form.File["file"]
			require.Len(t, file, 1)
			require.Equal(t, want, file[0].Filename)
			require.Len(t, file[0].Header, 1, "%v", file[0].Header)
			require.Equal(t, "email\nann@example.com\n", string(text))
		})
	}
}
