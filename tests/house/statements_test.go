package house_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// maxColumns is how long a line may be, a tab counting four. A text or a struct tag stays whole, so that it can be
// searched for: a line with one of more than maxText bytes may be longer.
const (
	maxColumns = 120
	maxText    = 40
)

// TestLinesAreShort requires that lines of code and comments have at most maxColumns.
func TestLinesAreShort(t *testing.T) {
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipOtherModules(file)
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil || bytes.Contains(text, []byte("DO NOT EDIT")) {
			return err
		}
		texts := linesOfTexts(text)
		number := 0
		for line := range bytes.Lines(text) {
			number++
			columns := utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n"))) + 3*bytes.Count(line, []byte("\t"))
			if columns > maxColumns && !texts[number] {
				t.Errorf("%s:%d: %d columns: break it behind a comma or an operator", file, number, columns)
			}
		}
		return nil
	}))
}

// linesOfTexts returns the numbers of the lines with a text of more than maxText bytes, or a part of one.
func linesOfTexts(source []byte) map[int]bool {
	lines := map[int]bool{}
	file := token.NewFileSet().AddFile("", 1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return lines
		}
		if kind == token.STRING && len(text) > maxText {
			for i := range strings.Count(text, "\n") + 1 {
				lines[file.Line(at)+i] = true
			}
		}
	}
}

// maxAssigned is the most names that one assignment may have.
const maxAssigned = 3

// TestOneStatementALine requires that the condition of an if or switch has no statement before it that does work: only
// a declaration of its own names, and `err = f(); err != nil`. It requires that no assignment has more than maxAssigned
// names, and that a receiver, outside of tests, begins with the initial of a word of its type.
func TestOneStatementALine(t *testing.T) {
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipOtherModules(file)
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments)
		if err != nil || ast.IsGenerated(parsed) {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if what := crammed(n); what != "" {
				t.Errorf("%s: %s", files.Position(n.Pos()), what)
			}
			if f, ok := n.(*ast.FuncDecl); ok && f.Recv != nil && !strings.HasSuffix(file, "_test.go") {
				of := receiverType(f)
				for _, receiver := range f.Recv.List[0].Names {
					if receiver.Name != "_" && !strings.Contains(initials(of), receiver.Name[:1]) {
						t.Errorf("%s: receiver %s of %s: begin with an initial of the type",
							files.Position(n.Pos()), receiver.Name, of)
					}
				}
			}
			return true
		})
		return nil
	}))
}

// crammed returns what is wrong with a node, if anything.
func crammed(n ast.Node) string {
	const before = "a statement that does work stands before the condition: give it a line of its own"
	const tuple = "an assignment of four names or more: write one line for each, or return a struct"
	switch s := n.(type) {
	case *ast.IfStmt:
		if s.Init != nil && !declares(s.Init) && !checksError(s.Init, s.Cond) {
			return before
		}
	case *ast.SwitchStmt:
		if s.Init != nil && !declares(s.Init) {
			return before
		}
	case *ast.AssignStmt:
		if len(s.Lhs) > maxAssigned {
			return tuple
		}
	case *ast.ValueSpec:
		if len(s.Names) > maxAssigned && len(s.Values) > 0 {
			return tuple
		}
	}
	return ""
}

// declares reports whether a statement declares names.
func declares(s ast.Stmt) bool {
	a, ok := s.(*ast.AssignStmt)
	return ok && a.Tok == token.DEFINE
}

// checksError reports whether a statement assigns an error, and the condition compares that with nil.
func checksError(init ast.Stmt, condition ast.Expr) bool {
	a, assigns := init.(*ast.AssignStmt)
	c, compares := condition.(*ast.BinaryExpr)
	return assigns && compares && a.Tok == token.ASSIGN && isNamed(a.Lhs[len(a.Lhs)-1], "err") &&
		isNamed(c.X, "err") && isNamed(c.Y, "nil")
}

func isNamed(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}

// initials returns the first letters of the words of a name, in lower case.
func initials(name string) string {
	letters := strings.ToLower(name[:1])
	for _, r := range name[1:] {
		if unicode.IsUpper(r) {
			letters += string(unicode.ToLower(r))
		}
	}
	return letters
}
