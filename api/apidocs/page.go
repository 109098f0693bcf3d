package apidocs

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"

	"probity/api/httpd"
)

//go:embed plain.html
var plain []byte

// pagePolicy allows what the renderer needs: our own files, and the styles that it sets on its elements as it draws.
// The page shows nothing that anyone typed, and script may only come from our files.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page makes /docs of the page that was built with the dashboard, or where there is none of the plain one.
func Page(built fs.FS) (httpd.Page, error) {
	content, err := fs.ReadFile(built, "dist/docs.html")
	if errors.Is(err, fs.ErrNotExist) {
		content, err = plain, nil
	}
	if err != nil {
		return httpd.Page{}, fmt.Errorf("docs: %w", err)
	}
	page := httpd.NewPage(content, "text/html; charset=utf-8")
	page.Policy = pagePolicy
	return page, nil
}
