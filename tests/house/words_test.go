package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// replacedWords are words that names of a package had once and shall not have again: private words, puns, and words
// that have another meaning in the field. An underscore joins the parts of a name. docs/glossary.md has the words that
// are used.
var replacedWords = map[string]string{
	"api": `
		backstage denial denier disbelieved door exchange fitness front glance hang_up in_office local_office meters
		near nearest office or_near pacer papers remote_office rooms say_goodbye sights stamp throw_out turn_away`,
	"bench": `errand floor house lab law paper room stranger visit witness yard`,
	"bench/sim": `
		dawdle errand floor habit house lab law misbehave mood paper place punish ramble room ruling sign stranger
		temper visit witness yard`,
	"cmd/probity": `
		backstage denial denier disbelieved door fitness glance hang_up in_office local_office meters misspelt nearest
		office or_near pacer papers remote_office rooms say_goodbye sights stamp throw_out turn_away`,
	"coordinator": `
		desk doubts enlist fare feed flights fly former_set gather gathered give_back house keep_house knew land
		landed landing lined live made_list owed packer place pop_line ripe ripen room roster scattered seal
		seal_fullest sealed setback settle_owed sight spents standing steady stock stocks swapping sweep_folders
		turned twin unseen via`,
	"coordinator/fleet": `
		desk doubts earlier enlist fare feed firsts flight flights fly gather gathered give_back house keep_house knew
		known land landed landing line lined live made_list owed packer place pop_line ripe ripen room roster
		row_block runner scattered seal seal_fullest sealed setback settle_owed sight spents standing steady stock
		stocks swapping sweep_folders turned twin unseen via`,
	"coordinator/jobfiles": `
		desk doubts enlist fare feed firsts flight flights fly former_set gather gathered give_back house keep_house
		knew known land landed landing lined live made_list owed packer place pop_line returned ripe ripen room roster
		row_block runner scattered seal seal_fullest sealed setback settle_owed sight spents standing steady stock
		stocks swapping sweep_folders turned twin unseen via`,
	"engine/dns":     `memo outbox`,
	"internal/admin": `in_office local_office office remote_office papers`,
	"internal/certs": `papers`,
	"prober": `
		account act adopt alibi apart arrive asker attended barred believes bill bill_of breath breathe breather
		breaths came canary come_back cool courtesy cutoff debt depart destination dismiss distance doubt doubted echo
		echoes egress elsewhere empty_out errand evenly far farewell filler finders forgo fresh_for go_on guest hasten
		hear heard hearing heat heed heed_short heed_table heeded horizon hot hungry hurry inside joined keep_house
		kept_for_first kick kicked knock land lane lane_key lane_of ledger lend locate masked memory mild miss missed
		mood move_on named_by nameless noted outside pace plain press pressing provable prove proved proven put_off
		recall recut reflag refrain rest_at rested resting rests retreat seek set_alone shift shorn short_share shut
		sick sight site sought spare spares spend spent step_away step_out sticky stile straggles stuck stuck_reply
		taking tell tend tended tidy tire tired told travels turnstile unconnect uneasy unidle unless_resting unmask
		unstick unwant volley vote votes well who`,
	"prober/wire": `lord`,
	"store":       `act acts books draft gift purse quiet roomy scribe stuck waste wish`,
	"store/cache": `
		act actor acts books draft fold gift give_way manners patient patient_table purse quiet roomy scribe sheet
		sieve stuck waste wish`,
}

// partsOf are the packages that were taken out of a package: its words are replaced there, too.
var partsOf = map[string][]string{
	"bench": {"bench/baseline", "bench/process"},
	"cmd/probity": {"internal/app", "internal/explain", "internal/nodeflags", "internal/progress", "internal/verify",
		"tests/service"},
	"coordinator": {"coordinator/erase", "coordinator/ingest", "coordinator/jobdir"},
	"prober":      {"prober/admission", "prober/budget", "prober/rtt", "prober/source", "prober/trace"},
}

// nameParts are the words of a name: "laneOf" has two, as "HTTPServer" has.
var nameParts = regexp.MustCompile(`[A-Z]+(?:[0-9]|$)|[A-Z]+[a-z0-9]+|[a-z0-9]+|[A-Z]`)

// TestNamesArePlain holds what packages and their tests declare to replacedWords.
func TestNamesArePlain(t *testing.T) {
	for folder, words := range replacedWords {
		replaced := strings.Fields(words)
		var files []string
		for _, folder := range append([]string{folder}, partsOf[folder]...) {
			found, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
			require.NoError(t, err)
			require.NotEmpty(t, found, "no package %s", folder)
			files = append(files, found...)
		}
		for _, file := range files {
			if strings.HasSuffix(file, ".pb.go") {
				continue
			}
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, name := range declaredNames(parsed) {
				if word := containedWord(name.Name, replaced); word != "" {
					t.Errorf("%s: %s has the word %q: choose the field's word or a plain one",
						fset.Position(name.Pos()), name.Name, word)
				}
			}
		}
	}
}

// declaredNames are the names of functions, types, constants, variables, parameters and fields that a file declares.
func declaredNames(file *ast.File) (names []*ast.Ident) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.Field:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					names = append(names, left.(*ast.Ident))
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names = append(names, id)
				}
			}
		}
		return true
	})
	return names
}

// containedWord is the word among those replaced that a name contains as a part, or "".
func containedWord(name string, replaced []string) string {
	joined := "_" + strings.ToLower(strings.Join(nameParts.FindAllString(name, -1), "_")) + "_"
	for _, word := range replaced {
		if strings.Contains(joined, "_"+word+"_") {
			return word
		}
	}
	return ""
}
