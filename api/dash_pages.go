package api

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"mime"
	"path"
	"strings"

	"probity/api/httpd"
)

// webFiles are the built dashboard, and the page that says how to build it.
//
//go:embed web/dist
var webFiles embed.FS

// noncePlaceholder is replaced by the nonce of an answer, which allows the styles that components make.
const noncePlaceholder = "__CSP_NONCE__"

// pagePolicy allows what the dashboard needs: our own files, and style sheets with the nonce of the answer.
// Style attributes that scripts set need no permission; script in the page itself is never allowed.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// asset is a file of the dashboard.
type asset struct {
	httpd.Page
	gzipped []byte // gzip; nil when there is none
}

// webApp is the dashboard's files. A program that was built without Node has no built page.
type webApp struct {
	index  []byte
	built  bool
	assets map[string]asset // by name below /assets/
}

// HasDashboard reports whether this program was built with the dashboard.
func HasDashboard() bool {
	_, err := fs.Stat(webFiles, "web/dist/index.html")
	return err == nil
}

func newWebApp() (*webApp, error) {
	wa := &webApp{assets: make(map[string]asset)}
	var err error
	if wa.index, err = webFiles.ReadFile("web/dist/index.html"); err != nil {
		wa.index, err = webFiles.ReadFile("web/dist/fallback.html")
		return wa, err
	}
	wa.built = true
	entries, err := fs.ReadDir(webFiles, "web/dist/assets")
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		b, err := webFiles.ReadFile("web/dist/assets/" + name)
		if err != nil {
			return nil, fmt.Errorf("dashboard: %w", err)
		}
		plain, packed := strings.CutSuffix(name, ".gz")
		a := wa.assets[plain]
		if packed {
			a.gzipped = b
		} else {
			kind := mime.TypeByExtension(path.Ext(name))
			if path.Ext(name) == ".js" {
				kind = "text/javascript; charset=utf-8" // not from the machine's own table
			}
			a.Page = httpd.NewPage(b, kind)
		}
		wa.assets[plain] = a
	}
	return wa, nil
}

// getApp serves the page with a new nonce; so it is never cached.
func getApp(c *call) error {
	var random [16]byte
	rand.Read(random[:])
	nonce := base64.RawStdEncoding.EncodeToString(random[:])
	res := &c.Ctx.Response
	res.Header.Set("Content-Security-Policy", fmt.Sprintf(pagePolicy, nonce))
	res.Header.Set("Referrer-Policy", "same-origin")
	res.Header.Set("Cross-Origin-Opener-Policy", "same-origin")
	res.SetStatusCode(httpd.StatusOK)
	res.Header.SetContentType("text/html; charset=utf-8")
	res.SetBodyRaw(bytes.ReplaceAll(c.srv.dashboard.webApp.index, []byte(noncePlaceholder), []byte(nonce)))
	return nil
}

// getAsset serves a file. Its name changes with its content.
func getAsset(c *call) error {
	a, ok := c.srv.dashboard.webApp.assets[c.Param]
	if !ok || a.Body == nil {
		return httpd.Refuse(httpd.NotFound, "There is no such file: reload the page.")
	}
	res := &c.Ctx.Response
	if a.gzipped != nil {
		res.Header.Set("Vary", "Accept-Encoding")
		if c.Ctx.Request.Header.HasAcceptEncoding("gzip") {
			res.Header.Set("Content-Encoding", "gzip")
			a.Body, a.Tag = a.gzipped, strings.TrimSuffix(a.Tag, `"`)+`-gz"`
		}
	}
	return c.SendPage(a.Page, "public, max-age=31536000, immutable")
}
