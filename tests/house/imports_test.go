package house_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// importRules says which of our packages each package may import. "x/..." means x and all below it. A package that
// is not listed may import nothing of ours. Besides the commands internal/app alone joins prober and coordinator.
// The rules hold for tests too, except that a test may use the simulated internet.
var importRules = map[string][]string{
	".": {"coordinator", "engine", "internal/app", "internal/nodeflags"},
	"engine": {"engine/basis", "engine/control", "engine/phrase", "engine/redact", "engine/replyline", "engine/typo",
		"engine/tomlfile"},
	"engine/redact":       {},
	"engine/detail":       {"engine"},
	"coordinator/details": {"engine", "engine/basis", "engine/control", "engine/detail", "internal/jsontext"},
	"engine/basis":        {"engine/control"},
	"engine/control":      {},
	"engine/phrase":       {},
	"engine/typo":         {},
	"engine/dns":          {"engine"},
	"engine/smtp":         {"engine", "engine/replyline", "internal/memnet"},
	"engine/charset":      {"engine", "engine/replyline"},
	"engine/replyline":    {},
	"engine/lists":        {"engine", "engine/typo", "engine/tomlfile"},
	"store": {"engine", "internal/shownname", "internal/wholefile", "store/dbfiles", "store/diskroom", "store/joborder",
		"store/base62", "store/opendb", "store/passwords", "store/requestid", "store/signin", "store/window"},
	"store/feedback":     {"engine", "engine/outcome", "store"},
	"store/passwords":    {},
	"store/deliveries":   {"store"},
	"store/requestid":    {},
	"store/joborder":     {},
	"engine/outcome":     {"engine", "engine/charset", "engine/replyline"},
	"store/cache":        {"engine", "engine/detail", "store/diskroom", "store/opendb"},
	"store/history":      {"engine", "engine/detail", "store/dbfiles", "store/diskroom", "store/opendb"},
	"store/dbfiles":      {},
	"store/window":       {},
	"store/signin":       {"store/window"},
	"store/base62":       {},
	"store/diskroom":     {},
	"store/opendb":       {},
	"prober/wire":        {"engine"},
	"prober/wire/frames": {"engine", "engine/detail", "prober/wire"},
	"prober/wire/stream": {"internal/spans", "engine", "prober/wire", "prober/wire/frames", "prober/wire/timing"},
	"prober/wire/timing": {},
	"prober/wire/press":  {},
	"prober/admission":   {"prober/budget", "prober/wire/press"},
	"prober/budget":      {"engine", "store/cache"},
	"prober/rtt":         {},
	"prober/trace":       {"engine", "engine/redact", "store/cache", "prober/wire"},
	"prober/hostqueue": {"engine", "engine/control", "engine/redact", "engine/smtp", "internal/ring", "prober/budget",
		"store/cache"},
	"prober/readyqueue": {"engine", "engine/charset", "engine/smtp", "internal/ring", "store/cache",
		"prober/addresslimit", "prober/admission", "prober/budget", "prober/conn", "prober/hosthealth",
		"prober/hostqueue",
		"prober/rtt", "prober/source", "prober/wire"},
	"prober": {"internal/spans", "engine", "engine/basis", "engine/control", "engine/dns", "engine/smtp", "store/cache",
		"prober/addresslimit", "prober/admission", "prober/budget", "prober/conn", "prober/hostqueue",
		"prober/readyqueue",
		"prober/trace", "prober/source", "prober/wire", "prober/wire/press", "prober/wire/timing"},
	"internal/ring":      {},
	"internal/spans":     {},
	"internal/receipt":   {},
	"internal/licences":  {},
	"internal/systemd":   {},
	"internal/buildinfo": {},
	"api/tarball":        {},
	"api/receipts": {"api/httpd", "coordinator", "coordinator/csvfile", "coordinator/results", "engine",
		"internal/receipt", "store",
		"store/history"},
	"internal/shownname":    {},
	"internal/foreign":      {"engine"},
	"prober/doctor":         {"engine/..."},
	"coordinator/csvfile":   {"engine"},
	"coordinator/addresses": {"engine", "coordinator/csvfile"},
	"internal/apiclient":    {"internal/wholefile"},
	"internal/mcptools":     {"internal/apiclient"},
	"internal/datafolder":   {"internal/wholefile"},
	"internal/console":      {},
	"internal/memnet":       {},
	"coordinator/shard":     {},
	"coordinator/cluster":   {"prober/wire/timing"},
	"coordinator/plan": {"engine", "coordinator/csvfile", "coordinator/jobfiles", "internal/pipeline",
		"prober/wire/press", "store"},
	"coordinator/jobfiles": {"engine", "engine/basis", "coordinator/addresses", "coordinator/csvfile",
		"internal/wholefile"},
	"coordinator/outward": {"internal/shownname"},
	"coordinator/fetch":   {"coordinator/outward"},
	"coordinator/bucket": {"coordinator/outward", "coordinator/resultfile", "internal/memnet", "internal/pipeline",
		"internal/shownname", "store", "store/deliveries"},
	"coordinator/callback": {"internal/spans", "coordinator/outward", "engine/redact", "internal/shownname", "store"},
	"coordinator/jobdir": {"engine", "coordinator/addresses", "coordinator/jobfiles", "coordinator/results",
		"internal/wholefile", "store"},
	"coordinator/erase": {"engine", "coordinator/addresses", "coordinator/csvfile", "coordinator/jobdir",
		"coordinator/jobfiles", "coordinator/results", "internal/pipeline", "internal/wholefile", "store"},
	"coordinator/ingest": {"engine", "coordinator/addresses", "coordinator/csvfile", "coordinator/jobdir",
		"coordinator/jobfiles", "coordinator/plan", "internal/pipeline", "prober/wire/press", "store"},
	"coordinator/results": {"engine", "engine/outcome", "coordinator/csvfile", "coordinator/details",
		"coordinator/jobfiles", "internal/jsontext",
		"internal/pipeline", "prober/wire/press", "store"},
	"coordinator/fleet": {"engine", "coordinator/cluster", "coordinator/shard", "internal/wholefile", "prober/wire",
		"prober/wire/stream", "prober/wire/timing"},
	"internal/memlimit":  {},
	"internal/loglimit":  {},
	"internal/measured":  {"bench", "bench/baseline", "engine/..."},
	"internal/certs":     {"internal/console", "internal/wholefile"},
	"internal/tlsfront":  {"internal/console"},
	"internal/wholefile": {},
	"internal/pipeline":  {},
	"coordinator": {"internal/pipeline", "internal/spans", "internal/wholefile", "engine",
		"engine/dns", "engine/lists", "engine/outcome",
		"store",
		"coordinator/...", "internal/jsontext", "prober/wire", "prober/wire/press"},
	"api": {"coordinator/...", "store", "store/joborder", "store/deliveries", "store/feedback", "store/history",
		"engine/...", "internal/buildinfo",
		"internal/jsontext", "internal/pipeline",
		"internal/receipt", "internal/shownname", "api/..."},
	"bench/sim/persona": {},
	"bench/sim/world":   {"bench/sim/persona"},
	"bench/sim/referee": {"bench/sim/persona", "bench/sim/world"},
	"bench/sim/smtpd":   {"bench/sim/persona", "bench/sim/world", "bench/sim/referee"},
	"bench/sim/dnsd":    {"bench/sim/world"},
	"bench/sim/score":   {"bench/sim/persona", "bench/sim/world"},
	"bench/sim": {"bench/sim/persona", "bench/sim/world", "bench/sim/referee", "bench/sim/smtpd",
		"bench/sim/dnsd"},
	"bench/process":     {"bench/report"},
	"bench/baseline":    {"bench/process", "bench/sim/persona", "bench/sim/world"},
	"bench":             {"bench/sim/...", "bench/sim", "bench/report", "bench/baseline", "bench/process"},
	"internal/jsontext": {},
	"cmd/probity":       {"..."},
	"internal/admin": {"api", "coordinator", "coordinator/erase", "coordinator/ingest", "coordinator/jobdir",
		"coordinator/singles",
		"engine/...", "internal/apiclient", "internal/console", "internal/datafolder", "internal/pipeline", "store/...",
		"api/record", "internal/wholefile"},
	"internal/app": {"internal/spans", "api", "api/activity", "api/adminlistener",
		"api/facade", "api/feedback", "api/httpd", "api/reasons", "api/record", "api/tus",
		"coordinator/...", "engine/...", "internal/admin",
		"internal/buildinfo", "internal/certs",
		"internal/console", "internal/datafolder", "internal/memlimit", "internal/nodeflags",
		"internal/providerview", "internal/systemd", "internal/tlsfront", "prober/...", "store/..."},
	"internal/explain": {"engine", "engine/charset", "engine/lists", "engine/replyline", "internal/apiclient",
		"internal/console", "internal/nodeflags", "internal/providerview", "prober/source"},
	"internal/progress": {"coordinator", "internal/console", "store", "coordinator/dispatch"},
	"internal/verify": {"coordinator", "coordinator/csvfile", "coordinator/ingest", "coordinator/results",
		"engine", "internal/app", "internal/console", "internal/datafolder", "internal/memlimit", "internal/nodeflags",
		"internal/progress", "store", "store/diskroom", "internal/wholefile"},
	"internal/nodeflags": {"engine", "engine/dns", "engine/lists", "engine/smtp", "internal/console", "prober",
		"prober/doctor", "prober/source"},
	"internal/providerview": {"engine", "internal/console", "prober/doctor"},
	"prober/source":         {"engine", "engine/smtp", "store/cache"},
	"prober/addresslimit":   {"engine", "prober/budget", "store/cache"},
	"prober/hosthealth":     {"engine"},
	"prober/conn":           {"engine", "engine/dns", "engine/smtp", "prober/hosthealth", "prober/source"},
	"api/httpd":             {"internal/spans", "engine/redact", "internal/shownname"},
	"api/adminlistener":     {"api/httpd", "internal/buildinfo"},
	"api/apidocs":           {"api/httpd"},
	"api/compare":           {"api/httpd", "internal/foreign", "internal/jsonlines", "internal/pipeline", "store"},
	"api/feedback": {"api/httpd", "internal/jsonlines",
		"coordinator/results", "engine", "engine/outcome", "store", "store/feedback",
		"store/history"},
	"api/described": {"api/httpd"},
	"api/reasons":   {"engine", "engine/basis", "engine/control", "internal/jsontext", "store"},
	"api/web":       {"api/httpd"},
	"api/activity":  {"api/httpd", "api/record", "coordinator/fleet", "engine", "prober/wire", "store"},
	"api/usage":     {"api/httpd", "coordinator", "engine", "store", "store/history"},
	"coordinator/singles": {"coordinator", "coordinator/callback", "coordinator/results", "engine", "store",
		"store/history"},
	"api/logs": {"api/httpd", "api/reasons", "api/record", "coordinator/callback", "coordinator/results",
		"coordinator/singles", "engine", "engine/redact",
		"store", "store/history"},
	"api/listform": {"api/httpd", "coordinator", "coordinator/callback", "coordinator/csvfile", "coordinator/ingest",
		"internal/shownname"},
	"api/rowsearch": {"api/httpd", "internal/pipeline"},
	"api/facade":    {"api/httpd", "api/reasons", "engine"},
	"api/tus":       {"api/httpd", "internal/wholefile"},
	"api/userlist":  {"api/httpd", "store"},
	"api/record": {"coordinator", "coordinator/csvfile", "coordinator/why", "engine", "store", "store/deliveries",
		"internal/jsontext"},
	"bench/report": {},
	"coordinator/chunks": {"engine", "internal/pipeline", "prober/wire", "prober/wire/press", "coordinator/csvfile",
		"coordinator/jobfiles"},
	"coordinator/resultfile": {"coordinator/jobdir", "coordinator/jobfiles", "coordinator/results", "internal/pipeline",
		"internal/wholefile", "store"},
	"coordinator/retention": {"coordinator/jobdir", "store"},
	"coordinator/progress":  {"coordinator/jobfiles", "engine"},
	"coordinator/dispatch": {"coordinator/details", "coordinator/chunks", "coordinator/jobfiles", "coordinator/plan",
		"coordinator/progress",
		"engine", "internal/pipeline", "prober/wire", "store"},
	"coordinator/why": {"coordinator/chunks", "coordinator/dispatch", "coordinator/fleet", "coordinator/plan", "engine",
		"prober/wire"},
	"coordinator/split": {"coordinator/details", "coordinator/chunks", "coordinator/csvfile", "coordinator/dispatch",
		"coordinator/fleet",
		"coordinator/jobfiles", "coordinator/progress", "engine", "internal/pipeline", "prober/wire",
		"prober/wire/press",
		"store"},
	"engine/tomlfile": {},
	"tests/harness": {"bench/sim/...", "coordinator", "engine", "engine/dns", "engine/lists", "engine/smtp",
		"internal/app", "internal/detector", "internal/memnet", "prober", "prober/source", "store", "store/cache"},
	"tests/service":   {"..."},
	"tests/fleet":     {"..."},
	"tests/hostile":   {"..."},
	"tests/node":      {"..."},
	"tests/process":   {"..."},
	"tests/packaged":  {"bench/sim/...", "tests/harness"},
	"tests/published": {},
	"clients/go":      {},
	"tests/clients":   {"clients/go", "tests/harness"},
	"tests/receivers": {"tests/harness"},
}

// ownImports begins the import paths of our packages. The module is renamed where it is published (tools/module.sh).
var ownImports = func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		panic("the tests do not know their module: run them with go test")
	}
	return info.Main.Path + "/"
}()

// testImports lists what test files of any package may import beyond the rules: the simulated internet, the network
// in memory, and the interface of a prober, so that a fake can implement it; and the stream, whose warnings of
// strangers internal/loglimit counts; and the collector of spans, with what exports to it.
var testImports = []string{"bench/sim/...", "internal/detector", "internal/memnet", "prober/wire", "prober/wire/stream",
	"internal/spans", "internal/spans/collector"}

func TestImportRules(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipOtherModules(file)
		}
		if strings.HasSuffix(file, ".go") {
			pkg := path.Dir(filepath.ToSlash(file))
			seen[pkg] = true
			checkImports(t, pkg, file)
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, seen["engine"], "the law must be read from the project's root")
}

func skipOtherModules(dir string) error {
	switch base := filepath.Base(dir); {
	case base == "node_modules", base == "testdata", dir == "tools", dir == filepath.Join("bench", "peers"),
		strings.HasPrefix(base, ".") && dir != ".":
		return filepath.SkipDir
	}
	return nil
}

func checkImports(t *testing.T, pkg, file string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	allowed := importRules[pkg]
	if strings.HasSuffix(file, "_test.go") {
		allowed = append(append([]string{pkg}, allowed...), testImports...)
	}
	for _, imp := range parsed.Imports {
		name, err := strconv.Unquote(imp.Path.Value)
		require.NoError(t, err)
		own, ok := strings.CutPrefix(name+"/", ownImports)
		own = path.Clean(own)
		if ok && !importAllowed(allowed, own) {
			t.Errorf("%s: %s may not import %s", file, pkg, own)
		}
	}
}

func importAllowed(allowed []string, pkg string) bool {
	for _, a := range allowed {
		base, recursive := strings.CutSuffix(a, "...")
		base = strings.TrimSuffix(base, "/")
		if a == pkg || recursive && (base == "" || pkg == base || strings.HasPrefix(pkg, base+"/")) {
			return true
		}
	}
	return false
}
