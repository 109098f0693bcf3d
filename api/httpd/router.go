package httpd

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// BodyKind is the kind of body that a route accepts.
type BodyKind uint8

const (
	BodyNone  BodyKind = iota
	BodyJSON           // held in memory, as CSV is
	BodyForm           // multipart/form-data, read as a stream
	BodyPiece          // application/offset+octet-stream, read as a stream
)

// isStream reports whether the handler reads the body as it arrives.
func (k BodyKind) isStream() bool { return k == BodyForm || k == BodyPiece }

// Content is what requests may contain. Everything else is refused: it could be a restriction that is then missing.
type Content struct {
	Query  []string // the names of the query parameters
	Body   BodyKind
	Fields *Fields // the members of a JSON body, or the parts of a form
	CSV    bool    // a JSON body may be sent as CSV instead
}

// Fields are the names that an object may have.
type Fields struct {
	Names  []string
	Nested map[string]*Fields // those that are objects, or lists of objects, with names of their own
}

// Route is one method of one path.
type Route struct {
	Method string
	Path   string // as in the description, the label of logs and metrics; a segment "{...}" is a parameter
	Content
	WhileDraining bool // served while the server drains
	// the query is of the page that is served, which reads it in the browser: nothing of it is refused
	PageQuery bool
	MaxBody   int64 // bytes of a body that is held in memory; 0 is MaxJSON
	// Frequent says that many requests arrive together: their answers are written in a row, and their calls are used
	// again, so that no answer may be a stream.
	Frequent bool
	// Admit decides about a request by all that is known without its body, before the first byte of it is requested. It
	// runs once for each request, also before "Expect: 100-continue" is answered.
	Admit func(*Call) error
	// Handle answers an admitted request.
	Handle func(*Call) error
}

// servedRoute is a route with what the server needs of it for each request. The metrics need not be looked up.
type servedRoute struct {
	Route
	segments   []string
	okRequests prometheus.Counter // of answers with 200
	duration   prometheus.Observer
}

// router finds routes.
type router struct {
	all    []*servedRoute
	static map[string][]*servedRoute // routes without a parameter, by path
}

func newRouter(routes []Route, m *metrics) router {
	t := router{static: make(map[string][]*servedRoute)}
	for _, r := range routes {
		one := &servedRoute{Route: r, segments: strings.Split(r.Path, "/")}
		one.okRequests = m.requests.WithLabelValues(r.Method, r.Path, strconv.Itoa(StatusOK))
		one.duration = m.durations.WithLabelValues(r.Path)
		t.all = append(t.all, one)
		if !strings.Contains(r.Path, "{") {
			t.static[r.Path] = append(t.static[r.Path], one)
		}
	}
	return t
}

// find finds the route of a path as it was sent, and the value of its parameter. For a path with other methods the
// refusal lists them; any other path is not found. HEAD is GET without a body. A parameter is one segment; only it may
// be percent-encoded.
func (r *router) find(method, path []byte) (*servedRoute, string, error) {
	if string(method) == "HEAD" {
		method = []byte("GET")
	}
	for _, r := range r.static[string(path)] {
		if r.Method == string(method) {
			return r, "", nil
		}
	}
	var allow []string
	segments := strings.Split(string(path), "/")
routes:
	for _, r := range r.all {
		if len(segments) != len(r.segments) {
			continue
		}
		param := ""
		for i, want := range r.segments {
			segment := segments[i]
			if want == segment {
				continue
			}
			if want == "" || want[0] != '{' || segment == "" || segment == "." || segment == ".." {
				continue routes
			}
			var err error
			if param, err = url.PathUnescape(segment); err != nil {
				continue routes
			}
		}
		if r.Method == string(method) {
			return r, param, nil
		}
		allow = append(allow, r.Method)
		if r.Method == "GET" {
			allow = append(allow, "HEAD")
		}
	}
	if allow == nil {
		return nil, "", Refuse(NotFound, "Not found: check the path against /docs.")
	}
	notAllowed := Refuse(wrongMethod, "This path does not take this method: use %s.", strings.Join(allow, ", "))
	notAllowed.allow = strings.Join(allow, ", ")
	return nil, "", notAllowed
}
