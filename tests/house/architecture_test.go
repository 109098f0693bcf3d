package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stepPattern is a hop of docs/architecture.md: the folder of a package, a dot, and a function or "(Type).Method", in backquotes;
// behind it, in parentheses, the file.
var stepPattern = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:\\([A-Za-z]\\w*\\)\\.)?[A-Za-z]\\w*)`(?:\\s+\\(([a-z0-9_]+\\.go)\\))?")

// TestArchitecturePage compares docs/architecture.md with the sources: each function on the way of an address is declared where the
// page says.
func TestArchitecturePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "architecture.md"))
	require.NoError(t, err)
	packages := map[string]map[string][]string{}
	steps := stepPattern.FindAllStringSubmatch(string(page), -1)
	for _, step := range steps {
		folder, name, file := step[1], step[2], step[3]
		declared, ok := packages[folder]
		if !ok {
			declared = filesOfFunctions(t, folder)
			packages[folder] = declared
		}
		files := declared[name]
		switch {
		case len(files) == 0:
			t.Errorf("docs/architecture.md: no file in %q declares %s: find what does its work now, and name that in the page, or take the hop out", folder, name)
		case file != "" && !slices.Contains(files, file):
			t.Errorf("docs/architecture.md: %s.%s is in %s, not in %s: correct the file's name in the page", folder, name, strings.Join(files, ", "), file)
		}
	}
	require.Greater(t, len(steps), 100, "the page is not read as it is written: it says itself how a hop is written")
}

// filesOfFunctions returns the functions and methods of a package, without its tests, and the files that declare each: one for each
// system it is built for.
func filesOfFunctions(t *testing.T, folder string) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
	require.NoError(t, err)
	declared := map[string][]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				name := receiverOf(f) + f.Name.Name
				declared[name] = append(declared[name], filepath.Base(path))
			}
		}
	}
	return declared
}

// receiverOf is "(Type)." of a method, with or without a pointer or type parameters; empty for a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	for e := f.Recv.List[0].Type; ; {
		switch of := e.(type) {
		case *ast.StarExpr:
			e = of.X
		case *ast.IndexExpr:
			e = of.X
		case *ast.Ident:
			return "(" + of.Name + ")."
		default:
			return ""
		}
	}
}
