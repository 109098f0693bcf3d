package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// declaredName is a name in docs/architecture.md: the folder of a package, a dot, and a type or function, in
// backquotes.
var declaredName = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.([A-Za-z]\\w*)`")

// TestArchitecturePage compares docs/architecture.md with the sources: each type and function that it names is declared
// where it says.
func TestArchitecturePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "architecture.md"))
	require.NoError(t, err)
	packages := map[string]map[string]bool{}
	named := declaredName.FindAllStringSubmatch(string(page), -1)
	for _, of := range named {
		folder, name := of[1], of[2]
		if packages[folder] == nil {
			packages[folder] = declarations(t, folder)
		}
		if !packages[folder][name] {
			t.Errorf("docs/architecture.md: %s declares no %s: name what does its work now, or take it out", folder,
				name)
		}
	}
	require.Greater(t, len(named), 30, "the page is not read as it is written: it says itself how a name is written")
}

// declarations returns the types and functions of a package, without those of its tests.
func declarations(t *testing.T, folder string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
	require.NoError(t, err)
	declared := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declared[d.Name.Name] = declared[d.Name.Name] || d.Recv == nil
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if of, ok := spec.(*ast.TypeSpec); ok {
						declared[of.Name.Name] = true
					}
				}
			}
		}
	}
	return declared
}
