package web

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"path"
	"slices"
	"strings"
	"sync"

	"probity/api/httpd"
)

// Dist is what was built, below dist, and the page that says how to build it.
//
//go:embed dist
var Dist embed.FS

// noncePlaceholder is replaced by the nonce of an answer, which allows the styles that components make.
const noncePlaceholder = "__CSP_NONCE__"

// pagePolicy allows what the dashboard needs: our own files, and style sheets with the nonce of the answer.
// Style attributes that scripts set need no permission; script in the page itself is never allowed.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// asset is a file that the page names.
type asset struct {
	page   httpd.Page
	plain  func() ([]byte, error) // unpacks a body that is gzip; nil where it is not
	brotli []byte                 // the same file in this form; nil where there is none
}

// Files are the files of the dashboard.
type Files struct {
	page   []byte
	assets map[string]asset // by name
}

// Built reports whether this program was built with the dashboard.
func Built() bool {
	_, err := fs.Stat(Dist, "dist/index.html")
	return err == nil
}

// Open reads the files.
func Open() (*Files, error) {
	f := &Files{assets: make(map[string]asset)}
	var err error
	if f.page, err = Dist.ReadFile("dist/index.html"); err != nil {
		f.page, err = Dist.ReadFile("dist/fallback.html")
		return f, err
	}
	entries, err := fs.ReadDir(Dist, "dist/assets")
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	for _, e := range entries {
		b, err := Dist.ReadFile("dist/assets/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("dashboard: %w", err)
		}
		if strings.HasSuffix(e.Name(), ".br") {
			continue // it is read with the file that it is another form of
		}
		name, packed := strings.CutSuffix(e.Name(), ".gz")
		kind := mime.TypeByExtension(path.Ext(name))
		if path.Ext(name) == ".js" {
			kind = "text/javascript; charset=utf-8" // not from the machine's own table
		}
		a := asset{page: httpd.NewPage(b, kind)}
		if packed {
			a.plain = sync.OnceValues(func() ([]byte, error) { return unpack(b) })
		}
		a.brotli, err = Dist.ReadFile("dist/assets/" + name + ".br")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("dashboard: %w", err)
		}
		f.assets[name] = a
	}
	return f, nil
}

// Assets are the names of the files that the page can load.
func (f *Files) Assets() []string { return slices.Sorted(maps.Keys(f.assets)) }

// SendPage serves the page with a new nonce; so it is never cached.
func (f *Files) SendPage(c *httpd.Call) error {
	var random [16]byte
	rand.Read(random[:])
	nonce := base64.RawStdEncoding.EncodeToString(random[:])
	res := &c.Ctx.Response
	res.Header.Set("Content-Security-Policy", fmt.Sprintf(pagePolicy, nonce))
	res.Header.Set("Referrer-Policy", "same-origin")
	res.Header.Set("Cross-Origin-Opener-Policy", "same-origin")
	res.SetStatusCode(httpd.StatusOK)
	res.Header.SetContentType("text/html; charset=utf-8")
	res.SetBodyRaw(bytes.ReplaceAll(f.page, []byte(noncePlaceholder), []byte(nonce)))
	return nil
}

// SendAsset serves a file.
func (f *Files) SendAsset(c *httpd.Call, name string) error {
	a, ok := f.assets[name]
	if !ok {
		return httpd.Refuse(httpd.NotFound, "There is no such file: reload the page.")
	}
	page := a.page
	if a.plain != nil {
		res := &c.Ctx.Response
		res.Header.Set("Vary", "Accept-Encoding")
		accepts := c.Ctx.Request.Header.HasAcceptEncoding
		switch {
		case a.brotli != nil && accepts("br"):
			res.Header.Set("Content-Encoding", "br")
			page.Tag = strings.TrimSuffix(page.Tag, `"`) + `-br"`
			page.Body = a.brotli
		case accepts("gzip"):
			res.Header.Set("Content-Encoding", "gzip")
			page.Tag = strings.TrimSuffix(page.Tag, `"`) + `-gz"`
		default:
			var err error
			if page.Body, err = a.plain(); err != nil {
				return fmt.Errorf("dashboard: %s: %w", name, err)
			}
		}
	}
	return c.SendPage(page, "public, max-age=31536000, immutable")
}

// unpack returns the content of a file that the build packed.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
