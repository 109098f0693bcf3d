package house_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limits of a package, without its tests and generated files. TestHouse prints the size of each. Sizes are in bytes: a limit of lines
// would be kept by long ones.
const (
	maxBytes   = 95_000 // of a package
	maxMethods = 25     // of a type

	maxInvariants = 7 // numbered in doc.go
)

// ownLimits are the bytes of packages, and the methods of types, that have limits of their own. The types are what others see of a
// coordinator and of a node.
var ownLimits = map[string]int{"store": 158_000, "engine": 150_000, "api": 154_000, "bench": 118_000,
	"coordinator.Coordinator": 45, "prober.Prober": 45}

// antiqueWords are words that plain English does without.
var antiqueWords = regexp.MustCompile(`(?i)\b(for the sake of|takes leave|lest|as it pleases|nobody|whoever|beside)\b`)

// numberedLine is an invariant of doc.go.
var numberedLine = regexp.MustCompile(`(?m)^//\s+\d+\. `)

// overLimit lists what exceeds its limit: bytes and invariants of packages, methods of types, and antique words of packages, whose limit
// is 0. A figure must not rise; if it falls, its row must be lowered.
var overLimit = map[string]int{}

// packageSize is the size of a package.
type packageSize struct {
	bytes, words, invariants int
	methods                  map[string]int // of a type
	imports                  map[string]bool
}

// TestHouse requires that packages and types keep their size limits.
func TestHouse(t *testing.T) {
	all := map[string]*packageSize{}
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipOtherModules(file)
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil || bytes.Contains(text, []byte("DO NOT EDIT")) {
			return err
		}
		name := path.Dir(filepath.ToSlash(file))
		if all[name] == nil {
			all[name] = &packageSize{methods: map[string]int{}, imports: map[string]bool{}}
		}
		return all[name].add(file, text)
	}))
	found := map[string]int{}
	check := func(what string, is, limit int) {
		if is > limit {
			found[what] = is
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		t.Logf("%-22s %6d bytes, %3d antique words, imports %s", name, h.bytes, h.words, strings.Join(slices.Sorted(maps.Keys(h.imports)), " "))
		limit, ok := ownLimits[name]
		if !ok {
			limit = maxBytes
		}
		check(name+": bytes", h.bytes, limit)
		check(name+": antique words", h.words, 0)
		check(name+": invariants", h.invariants, maxInvariants)
		for _, of := range slices.Sorted(maps.Keys(h.methods)) {
			if h.methods[of] > maxMethods {
				t.Logf("%-22s %6d methods of %s", "", h.methods[of], of)
			}
			limit, ok := ownLimits[name+"."+of]
			if !ok {
				limit = maxMethods
			}
			check(name+"."+of+": methods", h.methods[of], limit)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		if found[what] > overLimit[what] {
			t.Errorf("%s: %d, at most %d: divide it, or write it in plainer words", what, found[what], overLimit[what])
		}
	}
	for _, what := range slices.Sorted(maps.Keys(overLimit)) {
		if found[what] < overLimit[what] {
			t.Errorf("%s: %d, less than the %d of sizes_test.go: lower its row there, or take it out", what, found[what], overLimit[what])
		}
	}
}

// add measures a file.
func (h *packageSize) add(file string, text []byte) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("house: %w", err)
	}
	h.bytes += len(text)
	h.words += len(antiqueWords.FindAll(text, -1))
	if filepath.Base(file) == "doc.go" {
		h.invariants = len(numberedLine.FindAll(text, -1))
	}
	for _, imp := range parsed.Imports {
		if own, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), ownImports); ok {
			h.imports[own] = true
		}
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		h.methods[receiverType(f)]++
	}
	return nil
}

// receiverType returns the name of the type that a method has.
func receiverType(method *ast.FuncDecl) string {
	of := method.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		default:
			return of.(*ast.Ident).Name
		}
	}
}
